"""Whether two values are made by the same code, and the one value that the two branches of a condition make."""

from __future__ import annotations

import ast
from dataclasses import replace

from patchgen.anatomy.scores import Context, Factor, Gone, Probabilities, Scores, Term, Value


class Different(Exception):
    """The branches make values that are no one value; the message says what."""


def alike(one: object, other: object) -> bool:
    """Whether the same code makes both, wherever it stands."""
    return _text(one) == _text(other)


def joined(before: Value | None, one: Value | None, other: Value | None) -> Value | None:
    """What a name holds behind two branches of which one leaves `one` and the other `other` of `before`.

    Raises Different where that is no one value.
    """
    if alike(one, other):
        return one
    if isinstance(one, Scores) and isinstance(other, Scores) and isinstance(before, Scores):
        if one.statement == other.statement == before.statement:
            return replace(
                before,
                factors=(*one.factors, *other.factors[len(before.factors) :]),
                terms=(*one.terms, *other.terms[len(before.terms) :]),
                heads=one.heads or other.heads,
            )
    if isinstance(one, Probabilities) and isinstance(other, Probabilities):
        # Only one of the branches may have said how many heads there are.
        heads = one.scores.heads or other.scores.heads
        one = replace(one, scores=replace(one.scores, heads=heads))
        other = replace(other, scores=replace(other.scores, heads=heads))
        if alike(one, other):
            return one
        if alike(one.scores, other.scores):
            raise Different("dropout of the weights depends on a condition")
    present = [value for value in (one, other) if value is not None and not isinstance(value, Gone)]
    if len(present) == 1 and isinstance(present[0], Probabilities | Scores):
        return present[0]
    if present:
        raise Different("the branches of a condition make different scores")
    return None


def changes_nothing(after: Scores, before: Scores) -> bool:
    """Whether `before` was multiplied and divided by the same numbers only."""
    factors = after.factors[len(before.factors) :]
    by = {operator: sorted(_text(f.value) for f in factors if f.operator == operator) for operator in "*/"}
    return by["*"] == by["/"] and len(after.terms) == len(before.terms)


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
