"""Small questions about syntax trees: which name is called, what is read, what is bound."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

from patchgen.syntax.trees import dotted

_Node = TypeVar("_Node", bound=ast.AST)


def called(node: ast.AST | None) -> str:
    """The dotted name that `node` calls, `""` if it is no call of a name."""
    return dotted(node.func) if isinstance(node, ast.Call) else ""


def last(name: str) -> str:
    """The last part of a dotted name."""
    return name.rpartition(".")[2]


def method_of(node: ast.AST | None) -> str:
    """The attribute that `node` calls: `"view"` for `f(x).view(1)`; `""` if it calls none."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else ""


def keywords(call: ast.Call) -> dict[str | None, ast.expr]:
    """The values that a call is given by name; one that it unpacks has the name None."""
    return {keyword.arg: keyword.value for keyword in call.keywords}


def constant(node: ast.AST | None) -> object:
    """The value of a literal, signs included; None for anything else."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case _:
            return None


def walk(nodes: ast.AST | Iterable[ast.AST], kind: type[_Node]) -> Iterator[_Node]:
    """Every node of `kind` inside, in the order of the tree, which is mostly that of the text."""
    roots = [nodes] if isinstance(nodes, ast.AST) else nodes
    for root in roots:
        for node in nodes_inside(root):
            if isinstance(node, kind):
                yield node


# Each method of the module at hand is walked dozens of times, and no tree changes after that.
@lru_cache(maxsize=30_000)
def nodes_inside(root: ast.AST) -> tuple[ast.AST, ...]:
    nodes: list[ast.AST] = []
    stack = [root]
    while stack:
        nodes.append(stack.pop())
        stack += reversed([*ast.iter_child_nodes(nodes[-1])])
    return tuple(nodes)


def names(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """The names that are read inside."""
    return {node.id for node in walk(nodes, ast.Name) if isinstance(node.ctx, ast.Load)}


def stored(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """The names that are bound inside."""
    return {node.id for node in walk(nodes, ast.Name) if isinstance(node.ctx, ast.Store)}


def parsed(text: str) -> ast.expr:
    """The expression that `text` spells."""
    return ast.parse(text, mode="eval").body
