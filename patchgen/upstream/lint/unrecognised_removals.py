"""Find methods that are meant to be removed, and are shipped to raise.

    class NewMLP(OldMLP):
        def forward(self):              directly under the `class` line: shipped, and raises
            raise AttributeError()

transformers' converter knows a removal by its text alone.  A method that only raises is none if it
stands directly under the `class` line, or has a decorator, a comment or a docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.syntax.errors import Problem
from patchgen.upstream.lint.case import Case, Pair
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.members import members_of
from patchgen.upstream.lint.normalize import FunctionDef


def unrecognised_removals(
    pair: Pair, case: Case, shipped: ast.ClassDef
) -> Iterator[tuple[str, Problem]]:
    """Methods that are meant to be removed, and are shipped to raise."""
    above, theirs = members_of(pair.above).methods, members_of(shipped).methods
    for name, methods in members_of(pair.child).methods.items():
        if name not in above or name not in theirs:
            continue
        # A parent that raises as well is abstract: to raise is what is meant.
        if not is_raising(methods[0]) or is_raising(above[name][0]):
            continue
        if is_raising(theirs[name][0]):
            what = f"{pair.name}.{name} is not removed but shipped as a method that raises"
            hint = (
                "write it on one line below a blank line, without "
                "decorators, comments and docstring"
            )
            yield name, finding("PG703", case.at(pair.block, methods[0]), what, hint)


def is_raising(method: FunctionDef) -> bool:
    """Whether `method` does nothing but raise an error."""
    match method.body:
        case [ast.Raise(exc=ast.Call(func=ast.Name(name)) | ast.Name(name))]:
            return name.endswith("Error")
    return False
