"""Several products of queries and keys as one: side by side, features that are summed.

q1 @ k1^T + q2 @ k2^T = [q1 q2] @ [k1 k2]^T
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from patchgen.anatomy.code import parsed
from patchgen.anatomy.scores import Factor, Scores


def sum_of_products(one: Scores, other: Scores) -> Scores | None:
    """The scores that are the sum of both; None where a factor of one holds under a condition."""
    if any(factor.condition is not None for factor in (*one.factors, *other.factors)):
        return None
    return replace(
        one,
        statement=min(one.statement, other.statement),
        query=_beside([_scaled(one), _scaled(other)]),
        key=_beside([one.key, other.key]),
        factors=(),
        terms=(*one.terms, *other.terms),
        heads=one.heads or other.heads,
    )


def _scaled(scores: Scores) -> ast.expr:
    query = scores.query
    for factor in scores.factors:
        query = ast.BinOp(query, _operator(factor), factor.value)
    return query


def _operator(factor: Factor) -> ast.operator:
    return ast.Mult() if factor.operator == "*" else ast.Div()


def _beside(states: Sequence[ast.expr]) -> ast.expr:
    return parsed(f"torch.cat([{', '.join(ast.unparse(state) for state in states)}], dim=-1)")
