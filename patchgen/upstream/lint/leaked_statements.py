"""Find statements below one `super()` call that change another method.

    def __init__(self):                 def forward(self):
        super().__init__()                  super().forward()      # inlined later
        num_patches = ...                   shipped without the parent's `num_patches = ...`

transformers' converter remembers assignments and `del` by their targets, and never clears the table
between methods (vivit).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.syntax.errors import Problem
from patchgen.upstream.lint.case import Case, Pair
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.members import members_of
from patchgen.upstream.lint.normalize import FunctionDef, dumped, short
from patchgen.upstream.lint.super_calls import is_inlined


@dataclass(frozen=True)
class Entry:
    """A statement of the tail of `method`, which is remembered under its target."""

    method: str
    statement: ast.stmt


def leaks(pair: Pair, case: Case, shipped: ast.ClassDef) -> Iterator[tuple[str, Problem]]:
    """The shipped methods that lost a statement because of another method."""
    above, theirs = members_of(pair.above).methods, members_of(shipped).methods
    table: dict[str, Entry] = {}
    for name, methods in members_of(pair.child).methods.items():
        tail = _tail(methods[0])
        if tail is None or name not in above or name not in theirs:
            continue
        # Never cleared: what one method sets is there for those below it.
        for statement in tail:
            if _target(statement):
                table[_target(statement)] = Entry(name, statement)
        # What is shipped all the same did not get lost.
        kept = set(map(dumped, theirs[name][0].body))
        for statement in above[name][0].body:
            entry = table.get(_target(statement))
            if entry is None or entry.method == name or dumped(statement) in kept:
                continue
            what = (
                f"{pair.name}.{name} is shipped without `{short(statement)}`: "
                f"`{short(entry.statement)}` of {entry.method} takes its place"
            )
            hint = f"give the variable another name in {entry.method}"
            yield name, finding("PG702", case.at(pair.block, entry.statement), what, hint)


def _tail(method: FunctionDef) -> list[ast.stmt] | None:
    """The statements below the `super()` call that is inlined; None where there is none."""
    for place, statement in enumerate(method.body):
        if is_inlined(statement, method.name):
            return method.body[place + 1 :]
    return None


def _target(node: ast.stmt) -> str:
    """The text of what a statement sets or deletes: the key of the converter's table."""
    match node:
        case (
            ast.Assign(targets=[target, *_])
            | ast.Delete(targets=[target])
            | ast.AnnAssign(target=target)
        ):
            return ast.unparse(target)
    return ""
