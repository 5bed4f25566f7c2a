"""Attention weights that a model returns even if they are not asked for: SDPA computes none.

A method collects them with `all_attentions.append(outputs[1])`, without a condition on
`output_attentions`, and returns the collection as `attentions`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.author.anatomy.code import constant, dotted, method_of, names, receiver, walk
from patchgen.author.anatomy.module import Module


def unasked_weights(module: Module) -> Iterator[ast.stmt]:
    """The statements that collect weights."""
    for owner in module.classes.values():
        for method in owner.own.values():
            returned: set[str] = set()
            for call in walk(method.body, ast.Call):
                for keyword in call.keywords:
                    if keyword.arg in ("attentions", "cross_attentions"):
                        returned |= names(keyword.value)
            if returned:
                yield from _collected(method.body, returned)


def _collected(suite: list[ast.stmt], returned: set[str]) -> Iterator[ast.stmt]:
    for statement in suite:
        if isinstance(statement, ast.If) and "output_attentions" in ast.unparse(statement.test):
            continue
        if isinstance(statement, ast.If | ast.For | ast.With):
            yield from _collected([*statement.body, *getattr(statement, "orelse", [])], returned)
        elif _adds(statement) in returned and any(
            constant(one.slice) for one in walk(statement, ast.Subscript)
        ):
            yield statement


def _adds(statement: ast.stmt) -> str:
    """The name of the list or tuple to which `statement` adds."""
    match statement:
        case ast.Expr(value=ast.Call() as call) if method_of(call) == "append":
            return dotted(receiver(call))
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=left), op=ast.Add())
        ):
            return name if left == name else ""
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add()):
            return name
        case _:
            return ""
