"""Small errors of values: a constant off by one, a slice bound moved, one branch only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.verify.mutation.sites import Mutation, Site


def mutate_constant(node: ast.Constant, site: Site) -> Iterator[Mutation]:
    value = node.value
    if (
        isinstance(site.parent, ast.UnaryOp)
        and isinstance(site.parent.op, ast.USub)
        and isinstance(value, int)
    ):
        return  # it is handled with its sign
    if isinstance(value, bool):
        yield f"{value} becomes {not value}", ast.Constant(not value)
    elif isinstance(value, int):
        yield "one more", ast.Constant(value + 1)
        if value:
            yield "one less", ast.Constant(value - 1)
    elif isinstance(value, float):
        if value:
            yield "negated", ast.UnaryOp(ast.USub(), ast.Constant(value))
            yield "becomes 0", ast.Constant(0.0)
        yield "one more", ast.Constant(value + 1)


def mutate_attribute(node: ast.Attribute, site: Site) -> Iterator[Mutation]:
    if node.attr == "training" and not (
        isinstance(site.parent, ast.Call) and site.parent.func is node
    ):
        yield "training ignored", ast.Constant(True)
        yield "never in training", ast.Constant(False)


def mutate_slice(node: ast.Slice, site: Site) -> Iterator[Mutation]:
    for side in ("lower", "upper"):
        bound = getattr(node, side)
        if bound is not None and not isinstance(bound, ast.Constant | ast.UnaryOp):
            moved = ast.Slice(node.lower, node.upper, node.step)
            setattr(moved, side, ast.BinOp(bound, ast.Add(), ast.Constant(1)))
            yield f"{side} bound one more", moved
    if node.lower is not None and node.upper is None:
        yield "from the start", ast.Slice(None, None, node.step)
    if node.upper is not None and node.lower is None:
        yield "to the end", ast.Slice(None, None, node.step)


def mutate_conditional(node: ast.IfExp, site: Site) -> Iterator[Mutation]:
    yield "always the first", node.body
    yield "always the second", node.orelse
