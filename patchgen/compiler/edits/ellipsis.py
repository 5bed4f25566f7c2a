"""Find where `...` stands in an edit: among the arguments of a call, or as a statement.

Under `old` it matches what is not spelled out, under `new` it stands for that:

    with old: self.act(x, ...)          matches self.act(x, scale=2)
    with new: self.gate(x, ...)         writes self.gate(x, scale=2)

This reads the declaration alone, before any method is read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen.syntax.trees import walk

KINDS = ("arguments", "statements")


def is_ellipsis(node: ast.AST) -> bool:
    """Whether `node` is `...`, as an expression or as a statement."""
    match node:
        case ast.Constant(value=value) | ast.Expr(value=ast.Constant(value=value)):
            return value is ...
        case _:
            return False


def find_ellipses(body: Sequence[ast.stmt], kind: str) -> list[ast.expr]:
    """Every `...` of `kind` in `body`, in no particular order."""
    return [node for found, node in _find_all(body) if found == kind]


def _find_all(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Each `...` that stands for something, with its kind."""
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Call):
                # `f(x=...)` and `x[...]` are ellipses that Python knows, and stand for nothing.
                for argument in filter(is_ellipsis, node.args):
                    yield "arguments", argument
            elif isinstance(node, ast.Expr) and is_ellipsis(node):
                yield "statements", node.value
