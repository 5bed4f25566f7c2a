"""The values of an attention that is written out.

    scores = (query @ key^T) * factors + terms
    probabilities = dropout(softmax(scores))
    context = probabilities @ value

Views and casts are not recorded, because they do not change what the attention computes.
"""

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
    """Softmax of `scores` over the keys; `dropout` is its rate, zero in eval mode.

    `zeroed` are terms that hide scores and are applied to the weights again after the softmax: then
    queries that see no key get zeros.
    """

    scores: Scores
    dropout: ast.expr | None = None
    zeroed: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Context:
    """Probabilities times `value` (.., keys, size); `node` is the product in the code.

    Its axes are those of (.., queries, size), permuted to the order of `axes`, if given.
    """

    probabilities: Probabilities
    value: ast.expr
    node: ast.expr
    axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Gone:
    """None, or a value that only one branch creates: under SDPA there is none to read."""


Value = Scores | Probabilities | Context | Gone
