"""Summarise trials: one state for each variant and release."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.author.survive.trial import Trial
from patchgen.syntax.errors import Problem


class State(enum.StrEnum):
    """The state of a variant on a release, compared with the release before it in the table."""

    SAME = "converts"
    CHANGED = "converts, to another output"
    EDIT = "an edit does not match"
    MEMBER = "a member is missing"
    PARENT = "a parent is missing"
    REFUSED = "is refused"
    UNREADABLE = "cannot be read"


CONVERTS = frozenset({State.SAME, State.CHANGED})
_NO_PARENT = frozenset({"PG101", "PG103"})
_NO_MEMBER = frozenset({"PG212", "PG215", "PG230", "PG304"})
_NO_TEXT = frozenset({"PG001", "PG002", "PG003", "PG004", "PG005", "PG006"})


def state_of(trial: Trial | None, before: Trial | None) -> State:
    """The state of a trial; `before` is that on the last release before it that was read."""
    if trial is None:
        return State.UNREADABLE
    if trial.converts:
        if before is None or not before.converts or before.outputs == trial.outputs:
            return State.SAME
        return State.CHANGED
    return state_of_problem(trial.problems)


def state_of_problem(problems: Sequence[Problem]) -> State:
    """The state that a list of problems means: the problem that causes the others decides."""
    codes = {problem.code for problem in problems}
    if codes & _NO_TEXT:
        return State.UNREADABLE
    if codes & _NO_PARENT:
        return State.PARENT
    if codes & _NO_MEMBER:
        return State.MEMBER
    if any(code.startswith("PG3") for code in codes):
        return State.EDIT
    return State.REFUSED


@dataclass(frozen=True)
class Span:
    """Releases one after another with one answer to the question whether a variant converts.

    `changed` are those whose output is another one than that of the release before.
    """

    first: str
    last: str
    state: State
    changed: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The releases in words."""
        return self.first if self.first == self.last else f"{self.first} to {self.last}"


def states_of(trials: Mapping[str, Trial], versions: Sequence[str]) -> dict[str, State]:
    """The state for each release."""
    found: dict[str, State] = {}
    before: Trial | None = None
    for version in versions:
        trial = trials.get(version)
        found[version] = state_of(trial, before)
        before = trial or before
    return found


def spans_of(states: Mapping[str, State]) -> Iterator[Span]:
    """Neighbouring releases of one state together, in order."""
    span: Span | None = None
    for version, state in states.items():
        plain = State.SAME if state in CONVERTS else state
        changed = (version,) if state is State.CHANGED else ()
        if span is not None and span.state is plain:
            span = Span(span.first, version, plain, span.changed + changed)
            continue
        if span is not None:
            yield span
        span = Span(version, version, plain, changed)
    if span is not None:
        yield span
