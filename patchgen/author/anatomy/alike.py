"""Compare values by the code that makes them, and join the values of two branches."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TypeVar

from patchgen.author.anatomy.scores import Context, Factor, Gone, Probabilities, Scores, Term, Value

_Part = TypeVar("_Part", Factor, Term)


class Different(Exception):
    """The branches make values that cannot be joined; the message says why."""


def alike(one: object, other: object) -> bool:
    """Whether the same code makes both, whatever its place in the file."""
    return _text(one) == _text(other)


def joined(one: Value | None, other: Value | None) -> Value | None:
    """The value of a name after an `if`: one branch leaves `one` in it and the other `other`.

    Raises Different if they cannot be joined.
    """
    if alike(one, other):
        return one
    if isinstance(one, Scores) and isinstance(other, Scores):
        return _scores(one, other)
    if isinstance(one, Probabilities) and isinstance(other, Probabilities):
        return _probabilities(one, other)
    present = [value for value in (one, other) if value is not None and not isinstance(value, Gone)]
    if len(present) == 1 and isinstance(present[0], Probabilities | Scores):
        return present[0]
    if present:
        raise Different("the branches of a condition make different scores")
    return None


def _probabilities(one: Probabilities, other: Probabilities) -> Probabilities:
    both_drop = one.dropout is not None and other.dropout is not None
    if both_drop and not alike(one.dropout, other.dropout):
        raise Different("the branches of a condition drop weights at two rates")
    scores = _scores(one.scores, other.scores)
    zeroed = (*one.zeroed, *_more(one.zeroed, other.zeroed))
    return Probabilities(scores, one.dropout or other.dropout, zeroed)


def _scores(one: Scores, other: Scores) -> Scores:
    """One product with the factors and terms of both branches.

    A factor or term of only one branch has the condition of the branch.
    """
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
    """The rest of `others` after what both start with."""
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
    """Whether `after` is `before`, multiplied and divided by the same numbers."""
    if len(after.terms) != len(before.terms):
        return False
    multipliers: list[str] = []
    divisors: list[str] = []
    for factor in after.factors[len(before.factors) :]:
        values = multipliers if factor.operator == "*" else divisors
        values.append(_text(factor.value))
    return sorted(multipliers) == sorted(divisors)


def only_adds(after: Scores, before: Scores) -> bool:
    """Whether `after` is `before` plus terms that are not scaled."""
    product = (after.query, after.key, after.factors)
    if not alike(product, (before.query, before.key, before.factors)):
        return False
    known, added = after.terms[: len(before.terms)], after.terms[len(before.terms) :]
    if not added or not alike(known, before.terms):
        return False
    return all(term.kind == "add" and not term.factors for term in added)


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
