"""Reads of the shape, dtype and device of scores in other words: under SDPA there are no scores to ask."""

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
    """`node`, in which `env` are the tracked names, asking the queries and keys what it asks the scores."""
    if not names(node) & env.keys():
        return node
    changed = _Shapes(env).visit(copy.deepcopy(node))
    assert isinstance(changed, type(node))
    return changed


@dataclass
class _Shapes(ast.NodeTransformer):
    """`scores.dtype` is the query's dtype, `scores.size(-1)` the number of keys; `expand_as(scores)` is not needed."""

    env: Mapping[str, Value]

    def _scores(self, node: ast.AST) -> Scores | None:
        found = self.env.get(node.id) if isinstance(node, ast.Name) else None
        return (
            found.scores
            if isinstance(found, Probabilities)
            else found
            if isinstance(found, Scores)
            else None
        )

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if (
            method_of(node) == "expand_as"
            and len(node.args) == 1
            and self._scores(node.args[0]) is not None
        ):
            return self.visit(receiver(node)) if isinstance(receiver(node), ast.AST) else node
        if (
            method_of(node) == "reshape_as"
            and len(node.args) == 1
            and (scores := self._scores(node.args[0]))
        ):
            query, key = ast.unparse(scores.query), ast.unparse(scores.key)
            shape = [ast.Starred(parsed(f"({query}).shape[:-1]")), parsed(f"({key}).shape[-2]")]
            return ast.Call(ast.Attribute(receiver(node), "reshape", ast.Load()), shape, [])
        if method_of(node) == "size" and (scores := self._scores(receiver(node))) is not None:
            size = _size(scores, node.args[0] if node.args else None)
            return self.generic_visit(node) if size is None else size
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
            return parsed(
                f"(*({ast.unparse(scores.query)}).shape[:-1], ({ast.unparse(scores.key)}).shape[-2])"
            )
        return self.generic_visit(node)


def _size(scores: Scores, axis: ast.expr | None) -> ast.expr | None:
    """How many keys or queries there are, where `axis` is theirs in scores of four axes."""
    number = constant(axis)
    source = scores.key if number in (-1, 3) else scores.query if number in (-2, 2) else None
    return None if source is None else parsed(f"({ast.unparse(source)}).shape[-2]")


def empty_scores(scores: Scores) -> ast.expr:
    """Zeros of the shape, dtype and device of `scores`."""
    query, key = _before_scaling(scores.query), ast.unparse(scores.key)
    return parsed(f"({query}).new_zeros((*({query}).shape[:-1], ({key}).shape[-2]))")


def _before_scaling(query: ast.expr) -> str:
    """What `query` is a multiple of, which has its shape."""
    while (
        isinstance(query, ast.BinOp)
        and isinstance(query.op, ast.Mult | ast.Div)
        and isinstance(query.left, ast.Name)
    ):
        query = query.left
    return ast.unparse(query)


def _first_name(node: ast.expr) -> str:
    return next(
        (
            one.id
            for one in ast.walk(node)
            if isinstance(one, ast.Name) and one.id not in ("self", "torch", "nn")
        ),
        "",
    )
