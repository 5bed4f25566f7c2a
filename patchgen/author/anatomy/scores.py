"""The values of an attention written out: scores as one linear form, probabilities, and the context.

    scores = (q @ k^T) * scales + terms          probabilities = dropout(softmax(scores))        context = p @ v

Views and casts are not kept: they change no number that attention is made of.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass


class Unplaced(Exception):
    """A statement that has no place in an attention: `node` is it, the message says why."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why


@dataclass(frozen=True)
class Factor:
    """One multiplication (`*`) or division (`/`) of the scores; under `condition` where there is one."""

    operator: str
    value: ast.expr
    condition: ast.expr | None = None


@dataclass(frozen=True)
class Term:
    """What is added to the scores (`add`), or where they are set to a number that hides (`hide`: true is hidden).

    `factors` multiply what is added, because the scores were scaled after it.
    """

    kind: str
    value: ast.expr
    condition: ast.expr | None = None
    factors: tuple[Factor, ...] = ()


@dataclass(frozen=True)
class Scores:
    """The product of `query` and `key` (.., keys, size), scaled, with what was added; `statement` makes it."""

    statement: int
    query: ast.expr
    key: ast.expr
    factors: tuple[Factor, ...] = ()
    terms: tuple[Term, ...] = ()
    heads: ast.expr | None = None


@dataclass(frozen=True)
class Probabilities:
    """Softmax of `scores` over the keys; `dropout` is the rate as an expression that knows about training.

    `zeroed` are terms of the scores that hide; behind softmax their weights are set to zero once more, which says
    something of queries that see no key: they get zeros.
    """

    scores: Scores
    dropout: ast.expr | None = None
    zeroed: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Context:
    """Probabilities times `value` (.., keys, size); `node` is the product in the code.

    Its axes are those of (.., queries, size) in the order of `axes` where there is one.
    """

    probabilities: Probabilities
    value: ast.expr
    node: ast.expr
    axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Gone:
    """None, or a value that only one branch gives: whoever reads it gets nothing under SDPA."""


Value = Scores | Probabilities | Context | Gone
