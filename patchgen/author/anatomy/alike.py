"""Whether two values are made by the same code, and the one value that the two branches of a condition make."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TypeVar

from patchgen.author.anatomy.scores import Context, Factor, Gone, Probabilities, Scores, Term, Value

_Part = TypeVar("_Part", Factor, Term)


class Different(Exception):
    """The branches make values that are no one value; the message says what."""


def alike(one: object, other: object) -> bool:
    """Whether the same code makes both, wherever it stands."""
    return _text(one) == _text(other)


def joined(one: Value | None, other: Value | None) -> Value | None:
    """What a name holds behind two branches of which one leaves `one` in it and the other `other`.

    Raises Different where that is no one value.
    """
    if alike(one, other):
        return one
    if isinstance(one, Scores) and isinstance(other, Scores):
        return _scores(one, other)
    if isinstance(one, Probabilities) and isinstance(other, Probabilities):
        if (
            one.dropout is not None
            and other.dropout is not None
            and not alike(one.dropout, other.dropout)
        ):
            raise Different("the branches of a condition drop weights at two rates")
        return Probabilities(
            _scores(one.scores, other.scores),
            one.dropout or other.dropout,
            (*one.zeroed, *_more(one.zeroed, other.zeroed)),
        )
    present = [value for value in (one, other) if value is not None and not isinstance(value, Gone)]
    if len(present) == 1 and isinstance(present[0], Probabilities | Scores):
        return present[0]
    if present:
        raise Different("the branches of a condition make different scores")
    return None


def _scores(one: Scores, other: Scores) -> Scores:
    """One product with the factors and terms of both; what only one branch has says so by its condition."""
    if one.statement != other.statement or not alike(
        (one.query, one.key), (other.query, other.key)
    ):
        raise Different("the branches of a condition make different scores")
    factors, terms = _more(one.factors, other.factors), _more(one.terms, other.terms)
    if any(_changed(term, one.terms) for term in terms):
        raise Different("what is added to the scores is scaled under a condition")
    # Only one of the branches may have said how many heads there are.
    heads = one.heads or other.heads
    return replace(one, factors=(*one.factors, *factors), terms=(*one.terms, *terms), heads=heads)


def _more(known: tuple[_Part, ...], others: tuple[_Part, ...]) -> tuple[_Part, ...]:
    """What of `others` comes behind the beginning that both have."""
    same = 0
    while same < min(len(known), len(others)) and alike(known[same], others[same]):
        same += 1
    return others[same:]


def _changed(term: Term, terms: tuple[Term, ...]) -> bool:
    return any(
        alike((term.kind, term.value, term.condition), (t.kind, t.value, t.condition))
        for t in terms
    )


def changes_nothing(after: Scores, before: Scores) -> bool:
    """Whether `before` was multiplied and divided by the same numbers only."""
    factors = after.factors[len(before.factors) :]
    by = {
        operator: sorted(_text(f.value) for f in factors if f.operator == operator)
        for operator in "*/"
    }
    return by["*"] == by["/"] and len(after.terms) == len(before.terms)


def only_adds(after: Scores, before: Scores) -> bool:
    """Whether `after` is `before` with something added to it, unscaled and whatever the case."""
    more = after.terms[len(before.terms) :]
    unscaled = alike(
        (after.query, after.key, after.factors), (before.query, before.key, before.factors)
    )
    known = alike(after.terms[: len(before.terms)], before.terms)
    return (
        unscaled
        and known
        and bool(more)
        and all(term.kind == "add" and not term.factors for term in more)
    )


def _text(value: object) -> str:
    """A value as text that is the same for the same code."""
    match value:
        case ast.AST():
            return ast.dump(value)
        case tuple():
            return f"({', '.join(_text(one) for one in value)})"
        case Scores() | Probabilities() | Factor() | Term() | Context():
            fields = (getattr(value, name) for name in value.__dataclass_fields__ if name != "node")
            return f"{type(value).__name__}{_text(tuple(fields))}"
        case _:
            return repr(value)
