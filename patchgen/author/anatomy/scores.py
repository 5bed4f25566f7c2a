"""The values of an attention that is written out; views and casts are not among them."""

from __future__ import annotations

import ast
from dataclasses import dataclass


class Unplaced(Exception):
    """A statement that does not belong in an attention: `node`, and why."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why


@dataclass(frozen=True)
class Factor:
    """A multiplication (`*`) or division (`/`) of the scores, under `condition` if given."""

    operator: str
    value: ast.expr
    condition: ast.expr | None = None


@dataclass(frozen=True)
class Term:
    """A value that is added to the scores (`add`), or a mask of the hidden ones (`hide`).

    `factors` multiply an added value: the scores were scaled after the addition.
    """

    kind: str
    value: ast.expr
    condition: ast.expr | None = None
    factors: tuple[Factor, ...] = ()


@dataclass(frozen=True)
class Scores:
    """The product of `query` and `key` (.., keys, size) with its factors and terms.

    `statement` is the number of the statement that computes the product.
    """

    statement: int
    query: ast.expr
    key: ast.expr
    factors: tuple[Factor, ...] = ()
    terms: tuple[Term, ...] = ()
    heads: ast.expr | None = None


@dataclass(frozen=True)
class Probabilities:
    """Softmax of `scores` over the keys; `dropout` is its rate, zero in eval mode."""

    scores: Scores
    dropout: ast.expr | None = None


@dataclass(frozen=True)
class Context:
    """Probabilities times `value` (.., keys, size); `node` is the product in the code."""

    probabilities: Probabilities
    value: ast.expr
    node: ast.expr


Value = Scores | Probabilities | Context
