"""Whether it matters which of two runs of statements comes first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from patchgen.syntax.bound import bound_names


def commute(one: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> bool:
    """Whether two runs of statements give the same in either order, as far as their names tell."""
    if any(isinstance(n, ast.Return | ast.Raise | ast.Break | ast.Continue) for n in _inside(one)):
        return False
    if any(
        isinstance(n, ast.Return | ast.Raise | ast.Break | ast.Continue) for n in _inside(other)
    ):
        return False
    mine, theirs = _bound(one), _bound(other)
    return not (mine & _named(other)) and not (theirs & _named(one))


def _inside(nodes: Iterable[ast.stmt]) -> list[ast.AST]:
    return [inner for node in nodes for inner in ast.walk(node)]


def _named(nodes: Iterable[ast.stmt]) -> set[str]:
    inside = _inside(nodes)
    attributes = {ast.unparse(n) for n in inside if isinstance(n, ast.Attribute)}
    return attributes | {n.id for n in inside if isinstance(n, ast.Name)}


def _bound(nodes: Sequence[ast.stmt]) -> set[str]:
    stored = {
        ast.unparse(n)
        for n in _inside(nodes)
        if isinstance(n, ast.Attribute | ast.Subscript) and not isinstance(n.ctx, ast.Load)
    }
    # A call whose result nobody takes is made for what it changes: its receiver.
    called = {
        n.value.func.value.id
        for n in _inside(nodes)
        if isinstance(n, ast.Expr)
        and isinstance(n.value, ast.Call)
        and isinstance(n.value.func, ast.Attribute)
        and isinstance(n.value.func.value, ast.Name)
    }
    return stored | called | set(bound_names(nodes))
