"""Proof that a generated module stands alone: it compiles, and every global name in it is bound.

What is wrong here is wrong in the modular file, or in patchgen; either way nothing is written.
"""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterator

from patchgen.errors import Location, Problem
from patchgen.flat import LineOrigin
from patchgen.source.scopes import bound_names, references

_KNOWN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__package__", "__spec__", "__class__"}


def verify(name: str, text: str, lines: tuple[LineOrigin, ...]) -> tuple[Problem, ...]:
    """What is wrong with the generated `text`, at the lines that it came from where they are known."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        at = Location(name, getattr(error, "lineno", 0) or 0, 1)
        return (Problem(at, "PG404", f"the generated module does not compile: {error}", "please report this"),)
    return tuple(sorted(set(_unbound(name, text, lines))))


def _unbound(name: str, text: str, lines: tuple[LineOrigin, ...]) -> Iterator[Problem]:
    tree = ast.parse(text)
    bound = {*bound_names(tree.body), *_KNOWN}
    bound |= {n for node in ast.walk(tree) if isinstance(node, ast.Global) for n in node.names}
    for reference in references(tree.body):
        if reference.name not in bound and "*" not in bound:
            at = origin_of(reference.line, lines) or Location(name, reference.line, reference.column + 1)
            yield Problem(at, "PG402", f"the name {reference.name} is bound by nothing", "import or define it")


def origin_of(line: int, lines: tuple[LineOrigin, ...]) -> Location | None:
    """Where the generated `line` came from."""
    for part in lines:
        if part.first <= line <= part.last:
            return Location(part.path, part.line + line - part.first, 1)
    return None
