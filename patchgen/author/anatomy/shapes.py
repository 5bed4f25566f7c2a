"""Replace reads of the shape, dtype and device of scores: under SDPA there are no scores."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from patchgen.author.anatomy.code import constant, method_of, names, parsed, receiver
from patchgen.author.anatomy.scores import Probabilities, Scores, Value

_Node = TypeVar("_Node", bound=ast.AST)


def without_scores(node: _Node, env: Mapping[str, Value]) -> _Node:
    """`node` with reads of scores, tracked in `env`, replaced by reads of queries and keys."""
    if not names(node) & env.keys():
        return node
    changed = _Shapes(env).visit(copy.deepcopy(node))
    assert isinstance(changed, type(node))
    return changed


@dataclass
class _Shapes(ast.NodeTransformer):
    """Reads the dtype from the query and the number of keys from the key; drops `expand_as`."""

    env: Mapping[str, Value]

    def _scores(self, node: ast.AST) -> Scores | None:
        found = self.env.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(found, Probabilities):
            return found.scores
        return found if isinstance(found, Scores) else None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        method = method_of(node)
        other = self._scores(node.args[0]) if len(node.args) == 1 else None
        if method == "expand_as" and other is not None:
            # SDPA broadcasts by itself.
            value: ast.AST = self.visit(receiver(node))
            return value
        if method == "reshape_as" and other is not None:
            query, key = ast.unparse(other.query), ast.unparse(other.key)
            shape = [ast.Starred(parsed(f"({query}).shape[:-1]")), parsed(f"({key}).shape[-2]")]
            return ast.Call(ast.Attribute(receiver(node), "reshape", ast.Load()), shape, [])
        if method == "size":
            scores = self._scores(receiver(node))
            size = _size(scores, node.args[0] if node.args else None) if scores else None
            if size is not None:
                return size
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            scores = self._scores(node.value.value)
            size = _size(scores, node.slice) if scores is not None else None
            return self.generic_visit(node) if size is None else size
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        scores = self._scores(node.value)
        if scores is not None and node.attr in ("dtype", "device"):
            return parsed(f"{_first_name(scores.query)}.{node.attr}")
        if scores is not None and node.attr == "shape":
            query, key = ast.unparse(scores.query), ast.unparse(scores.key)
            return parsed(f"(*({query}).shape[:-1], ({key}).shape[-2])")
        return self.generic_visit(node)


def _size(scores: Scores, axis: ast.expr | None) -> ast.expr | None:
    """The number of keys or queries, if `axis` is that of keys or queries."""
    number = constant(axis)
    if number in (-1, 3):
        return parsed(f"({ast.unparse(scores.key)}).shape[-2]")
    if number in (-2, 2):
        return parsed(f"({ast.unparse(scores.query)}).shape[-2]")
    return None


def empty_scores(scores: Scores) -> ast.expr:
    """Zeros of the shape, dtype and device of `scores`."""
    query, key = _before_scaling(scores.query), ast.unparse(scores.key)
    return parsed(f"({query}).new_zeros((*({query}).shape[:-1], ({key}).shape[-2]))")


def _before_scaling(query: ast.expr) -> str:
    """The name that `query` is a multiple of: it has the same shape."""
    while (
        isinstance(query, ast.BinOp)
        and isinstance(query.op, ast.Mult | ast.Div)
        and isinstance(query.left, ast.Name)
    ):
        query = query.left
    return ast.unparse(query)


def _first_name(node: ast.expr) -> str:
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and one.id not in ("self", "torch", "nn"):
            return one.id
    return ""
