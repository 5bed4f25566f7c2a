"""Whether it matters which of two runs of statements comes first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from patchgen.syntax.bound import bound_names

_JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def commute(one: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> bool:
    """Whether two runs of statements give the same in either order, as far as their names tell.

    `x = f(a)` and `y = g(b)` do.  `x = f(a)` and `y = g(x)` do not.
    """
    mine = [node for node in _inside(one) if isinstance(node, _JUMPS)]
    theirs = [node for node in _inside(other) if isinstance(node, _JUMPS)]
    if mine and theirs:
        # Whichever raises first, no value is given.
        if not all(isinstance(node, ast.Raise) for node in (*mine, *theirs)):
            return False
    # After a jump the other run would not run at all.
    elif mine and not _only_names(other):
        return False
    elif theirs and not _only_names(one):
        return False
    reads_mine = bound_in(one) & named_in(other)
    reads_theirs = bound_in(other) & named_in(one)
    return not reads_mine and not reads_theirs


def _only_names(nodes: Sequence[ast.stmt]) -> bool:
    """Whether statements name values and call nothing: who leaves the method need not run them."""
    inside = _inside(nodes)
    stored = [n for n in inside if isinstance(getattr(n, "ctx", None), ast.Store)]
    return (
        all(isinstance(node, ast.Assign) for node in nodes)
        and all(isinstance(n, ast.Name | ast.Tuple) for n in stored)
        and not any(isinstance(n, ast.Call | ast.Await | ast.NamedExpr) for n in inside)
    )


def _inside(nodes: Iterable[ast.stmt]) -> list[ast.AST]:
    return [inner for node in nodes for inner in ast.walk(node)]


def named_in(nodes: Iterable[ast.stmt]) -> set[str]:
    """The names and attributes that statements have in them."""
    inside = _inside(nodes)
    attributes = {ast.unparse(n) for n in inside if isinstance(n, ast.Attribute)}
    return attributes | {n.id for n in inside if isinstance(n, ast.Name)}


def bound_in(nodes: Sequence[ast.stmt]) -> set[str]:
    """The names, attributes and items that statements set, and what they call for its own sake."""
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
