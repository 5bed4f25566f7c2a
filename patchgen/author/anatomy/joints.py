"""Join several products of queries and keys into one.

sums           q1 @ k1^T + q2 @ k2^T        [q1 q2] @ [k1 k2]^T
other keys     [q1 @ k1^T  q2 @ k2^T]       [q1 q2] @ [[k1 0] [0 k2]]^T
other queries  [[q1 @ k^T] [q2 @ k^T]]      [[q1] [q2]] @ k^T
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from patchgen.author.anatomy.code import parsed
from patchgen.author.anatomy.scores import Factor, Scores


def sum_of_products(one: Scores, other: Scores) -> Scores | None:
    """The scores that are the sum of both; None if a factor has a condition."""
    if not (_is_unconditional(one) and _is_unconditional(other)):
        return None
    return _joint(
        one, other, _beside(one, other), _text("torch.cat([{}, {}], dim=-1)", one.key, other.key)
    )


def concatenation(
    parts: Sequence[Scores], axis: object, same: Callable[[ast.expr, ast.expr], bool]
) -> Scores | None:
    """The scores that `torch.cat(parts, dim=axis)` is; None if they are not one product.

    `same` tells whether two expressions are the same keys.
    """
    if len(parts) < 2 or any(part.terms or not _is_unconditional(part) for part in parts):
        return None
    if axis in (-1, 3):
        return reduce(_of_other_keys, parts)
    if axis in (-2, 2) and all(same(parts[0].key, part.key) for part in parts[1:]):
        return reduce(_of_other_queries, parts)
    return None


def either(test: ast.expr, one: Scores, other: Scores) -> Scores | None:
    """`one` if `test` is true, else `other`; None if one of them was scaled or added to."""
    if one.statement != other.statement or one.terms or other.terms or one.factors or other.factors:
        return None
    query, key = ast.IfExp(test, one.query, other.query), ast.IfExp(test, one.key, other.key)
    return _joint(one, other, query, key)


def _of_other_keys(one: Scores, other: Scores) -> Scores:
    first = _text("nn.functional.pad({}, (0, {}.shape[-1]))", one.key, other.key)
    second = _text("nn.functional.pad({1}, ({0}.shape[-1], 0))", one.key, other.key)
    return _joint(
        one, other, _beside(one, other), _text("torch.cat([{}, {}], dim=-2)", first, second)
    )


def _of_other_queries(one: Scores, other: Scores) -> Scores:
    query = _text("torch.cat([{}, {}], dim=-2)", _scaled(one), _scaled(other))
    return _joint(one, other, query, one.key)


def _joint(one: Scores, other: Scores, query: ast.expr, key: ast.expr) -> Scores:
    terms, heads = (*one.terms, *other.terms), one.heads or other.heads
    first = min(one.statement, other.statement)
    return replace(one, statement=first, query=query, key=key, factors=(), terms=terms, heads=heads)


def _is_unconditional(scores: Scores) -> bool:
    return all(factor.condition is None for factor in scores.factors)


def _beside(one: Scores, other: Scores) -> ast.expr:
    return _text("torch.cat([{}, {}], dim=-1)", _scaled(one), _scaled(other))


def _scaled(scores: Scores) -> ast.expr:
    query = scores.query
    for factor in scores.factors:
        query = ast.BinOp(query, _operator(factor), factor.value)
    return query


def _operator(factor: Factor) -> ast.operator:
    return ast.Mult() if factor.operator == "*" else ast.Div()


def _text(form: str, *nodes: ast.expr) -> ast.expr:
    return parsed(form.format(*(ast.unparse(node) for node in nodes)))
