"""Statements that are made up: code of a method with `...` for what may be left out.

if mask is None:            if mask is None:
    scores = f(x)               ...
    scores = g(scores)          scores = g(scores)
"""

from __future__ import annotations

import ast

from patchgen.author.align.suites import suites_of


def is_made_up(node: ast.AST) -> bool:
    """Whether a node is in neither file, because it has `...` for what is left out."""
    return getattr(node, "_made_up", False)


def make_up(node: ast.stmt) -> ast.stmt:
    node._made_up = True  # type: ignore[attr-defined]
    return ast.fix_missing_locations(node)


def make_ellipsis() -> ast.stmt:
    return make_up(ast.Expr(ast.Constant(...)))


def headed(node: ast.stmt) -> ast.stmt:
    """A compound statement by its head alone."""
    if not suites_of(node) or isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ):
        return node
    if isinstance(node, ast.Try):
        return node
    changed = {name: [make_ellipsis()] for name in ("body", "orelse") if getattr(node, name, None)}
    return _copy(node, changed)


def replace_suite(node: ast.stmt, number: int, suite: list[ast.stmt]) -> ast.stmt:
    """`node` with another suite in the place of its suite `number`."""
    if isinstance(node, ast.Try):
        if 0 < number <= len(node.handlers):
            handlers = list(node.handlers)
            old = handlers[number - 1]
            handlers[number - 1] = ast.ExceptHandler(old.type, old.name, suite)
            return _copy(node, {"handlers": handlers})
        names = ["body", *[""] * len(node.handlers), "orelse", "finalbody"]
    else:
        names = ["body", "orelse"]
    return _copy(node, {names[number]: suite})


def _copy(
    node: ast.stmt, changed: dict[str, list[ast.stmt]] | dict[str, list[ast.ExceptHandler]]
) -> ast.stmt:
    fields = dict(ast.iter_fields(node)) | changed
    return make_up(type(node)(**fields))
