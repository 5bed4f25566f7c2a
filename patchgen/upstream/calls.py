"""Write calls that name the parent class as `super()`.

    nn.Module.__init__(self)   ->   super().__init__()

In: a statement of a modular method and the bases of the merged class.  Out: the statement's text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from patchgen.upstream.statements import Statement, column, first_line

_PRE_TRAINED = "PreTrainedModel"


def parents_called(bases: Sequence[str]) -> frozenset[str]:
    """The dotted names that stand for the parent in a class with these bases."""
    names = set(bases)
    # The layer is written in the place of `nn.Module`, which the methods still name.
    if "GradientCheckpointingLayer" in names:
        names.add("nn.Module")
    if any(_PRE_TRAINED in base for base in bases):
        names.add(_PRE_TRAINED)
    return frozenset(names)


def to_super(statement: Statement, lines: Sequence[str], parents: frozenset[str]) -> Statement:
    """Write `Parent.method(self, ...)` anywhere in `statement` as `super().method(...)`."""
    # The tree need not be walked for most statements.
    if not any(f"{parent}." in statement.text for parent in parents):
        return statement
    first = first_line(statement.node)
    own = list(lines[first - 1 : first - 1 + statement.text.count("\n")])
    if "".join(own) != statement.text:  # It stands on the line of its `def`.
        return statement
    edits: list[tuple[int, int, int, int, str]] = []
    for node in ast.walk(statement.node):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner)) if (
                owner.lineno == owner.end_lineno and _segment(own, owner, first) in parents
            ):
                edits.append((*_span(owner, owner, first), "super()"))
                edits += _without_self(node, first)
    # From the last edit to the first, so that the columns of the others stay true.
    for row, start, last, end, text in sorted(edits, reverse=True):
        head, rest = own[row], own[last]
        own[row : last + 1] = [head[: column(head, start)] + text + rest[column(rest, end) :]]
    return replace(statement, text="".join(own))


def _segment(lines: Sequence[str], node: ast.expr, first: int) -> str:
    """The text of `node`, which stands on one line."""
    line = lines[node.lineno - first]
    start, end = column(line, node.col_offset), column(line, node.end_col_offset or 0)
    # Blanks may stand around the dots of a name.
    return re.sub(r"\s", "", line[start:end])


def _span(one: ast.expr, other: ast.expr, first: int) -> tuple[int, int, int, int]:
    # `ast` counts lines from 1 of the method, and these are indices into the statement's own.
    last = (other.end_lineno or first) - first
    return (one.lineno - first, one.col_offset, last, other.end_col_offset or 0)


def _without_self(call: ast.Call, first: int) -> list[tuple[int, int, int, int, str]]:
    """The edit that removes a leading `self`, up to the next argument."""
    match call.args:
        case [ast.Name("self") as own, *others]:
            following = [*others, *(k.value for k in call.keywords)]
            if not following:
                return [(*_span(own, own, first), "")]
            row, start, _, _ = _span(own, own, first)
            after = _start_of_next(call, first)
            return [(row, start, *after, "")]
    return []


def _start_of_next(call: ast.Call, first: int) -> tuple[int, int]:
    """Where the second argument begins: row and byte column."""
    starts: list[tuple[int, int]] = [(a.lineno - first, a.col_offset) for a in call.args[1:]]
    for keyword in call.keywords:
        # The position of `**kwargs` is that of its stars.
        starts.append((keyword.lineno - first, keyword.col_offset))
    return min(starts)
