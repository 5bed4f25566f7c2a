"""Small errors of operators: another operator, a term dropped, two sides swapped."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from patchgen.verify.mutation.sites import Mutation, Site

_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_SIGNS: dict[type[Any], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.MatMult: "@",
}
_ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.MatMult)


def mutate_binary(node: ast.BinOp, site: Site) -> Iterator[Mutation]:
    sign = _SIGNS.get(type(node.op), "")
    other = _OPERATORS.get(type(node.op))
    if other is not None:
        yield f"{sign} becomes {_SIGNS[other]}", ast.BinOp(node.left, other(), node.right)
    yield f"right of {sign} dropped", node.left
    yield f"left of {sign} dropped", node.right
    if isinstance(node.op, _ORDERED):
        yield f"sides of {sign} swapped", ast.BinOp(node.right, node.op, node.left)


def mutate_comparison(node: ast.Compare, site: Site) -> Iterator[Mutation]:
    for at, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield (
                f"{_name_operator(operator)} becomes {_name_operator(other())}",
                ast.Compare(node.left, ops, node.comparators),
            )


def _name_operator(operator: ast.cmpop) -> str:
    left, right = ast.Name("a", ast.Load()), ast.Name("b", ast.Load())
    return ast.unparse(ast.Compare(left, [operator], [right]))[2:-2]


def mutate_boolean(node: ast.BoolOp, site: Site) -> Iterator[Mutation]:
    is_and = isinstance(node.op, ast.And)
    yield (
        ("and becomes or", ast.BoolOp(ast.Or(), node.values))
        if is_and
        else (
            "or becomes and",
            ast.BoolOp(ast.And(), node.values),
        )
    )
    for at, term in enumerate(node.values):
        rest = [*node.values[:at], *node.values[at + 1 :]]
        yield (
            f"without {ast.unparse(term)}",
            rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest),
        )


def mutate_unary(node: ast.UnaryOp, site: Site) -> Iterator[Mutation]:
    if isinstance(node.op, ast.Not):
        yield "without not", node.operand
    elif isinstance(node.op, ast.Invert):
        yield "without ~", node.operand
    elif isinstance(node.op, ast.USub):
        if isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int):
            yield "one less", ast.UnaryOp(ast.USub(), ast.Constant(node.operand.value + 1))
        yield "without minus", node.operand
