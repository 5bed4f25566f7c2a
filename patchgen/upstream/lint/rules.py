"""The rules of lint: one module a rule or a family of rules, and one list of all, `RULES`.

    FILE_RULES          about a modular file and its outputs
    CLASS_RULES         about a class and its shipped text, for causes that have a name
    COMPARISON_RULES    about a class as Python would inherit it, and as it is shipped
    METHOD_RULES        the same about one method of both
    BODY_RULES          the same about the statements of a method; the first that finds something
                        explains the difference
    OUTPUT_RULES        about the outputs of a project's own modular files

To add a rule, write its check in a module, and name it here with its code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from patchgen.compiler.flat import FlatFile
from patchgen.syntax.errors import Problem
from patchgen.upstream.lint.broken_super import (
    missing_self,
    other_arguments,
    unreached_parent,
    unwanted_return,
)
from patchgen.upstream.lint.broken_words import broken_words
from patchgen.upstream.lint.built_twice import built_twice
from patchgen.upstream.lint.case import Case, Pair
from patchgen.upstream.lint.class_head import (
    other_bases,
    other_class_decorators,
    other_method_decorators,
)
from patchgen.upstream.lint.comparison import Comparison, MethodComparison
from patchgen.upstream.lint.dangling_names import dangling_names
from patchgen.upstream.lint.dropped_statements import dropped_statements
from patchgen.upstream.lint.leaked_statements import leaks
from patchgen.upstream.lint.other_bodies import (
    moved_post_init,
    other_order,
    other_statements,
    repeated_statements,
    replaced_assignments,
)
from patchgen.upstream.lint.other_definitions import other_choices
from patchgen.upstream.lint.other_members import (
    lost_statements,
    other_attributes,
    other_methods,
    unremoved_methods,
)
from patchgen.upstream.lint.other_parameters import other_parameters, replaced_super_kwargs
from patchgen.upstream.lint.shared_names import shared_names
from patchgen.upstream.lint.unrecognised_removals import unrecognised_removals

_Subject = ParamSpec("_Subject")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Rule(Generic[_Subject, _Found]):
    """A check with the code of its findings."""

    code: str
    check: Callable[_Subject, Iterator[_Found]]


FILE_RULES: tuple[Rule[[Case], Problem], ...] = (
    Rule("PG705", broken_words),
    Rule("PG708", dropped_statements),
    Rule("PG709", dangling_names),
    Rule("PG726", other_choices),
)
# Each finding comes with the name of the member that it explains.
CLASS_RULES: tuple[Rule[[Pair, Case, ast.ClassDef], tuple[str, Problem]], ...] = (
    Rule("PG702", leaks),
    Rule("PG703", unrecognised_removals),
    Rule("PG704", shared_names),
)
COMPARISON_RULES: tuple[Rule[[Comparison], Problem], ...] = (
    Rule("PG711", lost_statements),
    Rule("PG712", unremoved_methods),
    Rule("PG721", other_methods),
    Rule("PG722", other_attributes),
    Rule("PG723", other_bases),
    Rule("PG724", other_class_decorators),
)
METHOD_RULES: tuple[Rule[[MethodComparison], Problem], ...] = (
    Rule("PG724", other_method_decorators),
    Rule("PG725", other_parameters),
    Rule("PG728", replaced_super_kwargs),
)
# A cause in the modular file says more than the statements that differ because of it.
BODY_RULES: tuple[Rule[[MethodComparison], Problem], ...] = (
    Rule("PG706", other_order),
    Rule("PG707", repeated_statements),
    Rule("PG713", replaced_assignments),
    Rule("PG727", moved_post_init),
    Rule("PG732", missing_self),
    Rule("PG730", unreached_parent),
    Rule("PG731", unwanted_return),
    Rule("PG729", other_arguments),
    Rule("PG720", other_statements),
)
OUTPUT_RULES: tuple[Rule[[FlatFile, str], Problem], ...] = (Rule("PG740", built_twice),)

RULES = (
    *FILE_RULES,
    *CLASS_RULES,
    *COMPARISON_RULES,
    *METHOD_RULES,
    *BODY_RULES,
    *OUTPUT_RULES,
)
