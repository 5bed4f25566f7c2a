"""Reads of the shape, dtype and device of scores in other words: under SDPA there are no scores to ask."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from patchgen.anatomy.code import constant, method_of, names, parsed, receiver
from patchgen.anatomy.scores import Probabilities, Scores, Value

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
        return found.scores if isinstance(found, Probabilities) else found if isinstance(found, Scores) else None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if method_of(node) == "expand_as" and len(node.args) == 1 and self._scores(node.args[0]) is not None:
            return self.visit(receiver(node)) if isinstance(receiver(node), ast.AST) else node
        if method_of(node) == "reshape_as" and len(node.args) == 1 and (scores := self._scores(node.args[0])):
            query, key = ast.unparse(scores.query), ast.unparse(scores.key)
            shape = [ast.Starred(parsed(f"({query}).shape[:-1]")), parsed(f"({key}).shape[-2]")]
            return ast.Call(ast.Attribute(receiver(node), "reshape", ast.Load()), shape, [])
        if method_of(node) == "size" and (scores := self._scores(receiver(node))) is not None:
            axis = constant(node.args[0]) if node.args else None
            source = scores.key if axis in (-1, 3) else scores.query if axis in (-2, 2) else None
            if source is not None:
                return parsed(f"({ast.unparse(source)}).shape[-2]")
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        scores = self._scores(node.value)
        if scores is not None and node.attr in ("dtype", "device"):
            return parsed(f"{_first_name(scores.query)}.{node.attr}")
        return self.generic_visit(node)


def _first_name(node: ast.expr) -> str:
    return next(
        (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id not in ("self", "torch", "nn")), ""
    )
