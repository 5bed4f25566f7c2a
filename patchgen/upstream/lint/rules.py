"""The rules of lint: one module a rule, and one list of all.

    FILE_RULES     about a modular file and its outputs
    CLASS_RULES    about a class and its shipped text, for causes that have a name
    COMPARISON     every other difference between a class as Python would inherit it and as shipped
    OUTPUT_RULES   about the outputs of a project's own modular files

To add a rule, write a module with its check, and name it here with its codes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from patchgen.compiler.flat import FlatFile
from patchgen.errors import Problem
from patchgen.upstream.lint.broken_words import broken_words
from patchgen.upstream.lint.built_twice import built_twice
from patchgen.upstream.lint.case import Case, Pair
from patchgen.upstream.lint.compare import differences
from patchgen.upstream.lint.dangling_names import dangling_names
from patchgen.upstream.lint.dropped_statements import dropped_statements
from patchgen.upstream.lint.leaked_statements import leaks
from patchgen.upstream.lint.other_definitions import other_choices
from patchgen.upstream.lint.shared_names import shared_names
from patchgen.upstream.lint.unrecognised_removals import unrecognised_removals

_Subject = ParamSpec("_Subject")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Rule(Generic[_Subject, _Found]):
    """A check with the codes of its findings."""

    codes: tuple[str, ...]
    check: Callable[_Subject, Iterator[_Found]]


FILE_RULES: tuple[Rule[[Case], Problem], ...] = (
    Rule(("PG705",), broken_words),
    Rule(("PG708",), dropped_statements),
    Rule(("PG709",), dangling_names),
    Rule(("PG726",), other_choices),
)
# Each finding comes with the name of the member that it explains.
CLASS_RULES: tuple[Rule[[Pair, Case, ast.ClassDef], tuple[str, Problem]], ...] = (
    Rule(("PG702",), leaks),
    Rule(("PG703",), unrecognised_removals),
    Rule(("PG704",), shared_names),
)
COMPARISON: Rule[[Pair, Case, ast.ClassDef, ast.ClassDef], Problem] = Rule(
    (
        "PG706",
        "PG707",
        "PG711",
        "PG712",
        "PG713",
        *(f"PG{number}" for number in range(720, 726)),
        *(f"PG{number}" for number in range(727, 733)),
    ),
    differences,
)
OUTPUT_RULES: tuple[Rule[[FlatFile, str], Problem], ...] = (Rule(("PG740",), built_twice),)
