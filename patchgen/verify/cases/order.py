"""The order of cases that finds errors soonest.

Two cases that differ in nothing but a setting that an error does not touch show the same.  So each
case comes next that brings most that is new (another padding, head, configuration, way to call the
model, changed line) for what it costs.  Behind them come those that bring nothing
new.

In, by name and with what is new in each::

    full, right, left, packed, left in eval, full of another configuration

The order does not depend on a clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.verify.cases.case import Case

# What a case of each kind costs, in steps of a tiny model.
COSTS: Mapping[str, float] = {
    "weights": 1.2,
    "cache": 2,
    "effect": 2,
    "kept": 3,
    "choices": 3,
    "operators": 3,
    "zeros": 1,
    "pace": 4,
    "work": 2,
    "loss beside logits": 2,
    "isolation": 2,
    "attention": 3,
    "generated": 4,
    "checkpoints": 4,
    "fresh": 3,
    "drops": 12,
    "compiled": 60,
    "itself": 3,
}
NARROW = 3  # times as much: the parent's noise is measured
Trait = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """Places in the sequence that was given: of those that bring something new, and of the rest."""

    telling: tuple[int, ...]
    rest: tuple[int, ...]


def cost_of(case: Case) -> float:
    """The estimated cost of a run, in steps of a tiny model."""
    narrow = NARROW if case.dtype == "bfloat16" else 1
    return COSTS.get(case.kind, 1.0) * narrow


def order_cases(cases: Sequence[Case], paths: Sequence[frozenset[int]]) -> Ordered:
    """`paths` are the changed lines that each case runs."""
    traits = [frozenset(_traits(case, path)) for case, path in zip(cases, paths, strict=True)]
    left, met, telling = list(range(len(cases))), set[Trait](), list[int]()
    while left:
        best = max(left, key=lambda at: (len(traits[at] - met) / cost_of(cases[at]), -at))
        if not traits[best] - met:
            best = max(
                left, key=lambda at: (len(traits[at] - met), -at)
            )  # an expensive case may bring more
        if not traits[best] - met:
            break
        telling.append(best)
        left.remove(best)
        met |= traits[best]
    return Ordered(tuple(telling), tuple(sorted(left, key=lambda at: (cost_of(cases[at]), at))))


def _traits(case: Case, path: frozenset[int]) -> Iterator[Trait]:
    scenario = case.scenario
    yield "head", case.head
    yield "kind", case.kind, case.detail
    yield "configuration", repr(case.changes)
    yield "rows", scenario.rows, scenario.train
    yield "route", case.route
    yield "dtype", case.dtype
    yield "dropout", scenario.train, bool(scenario.dropout)
    yield "checkpointing", repr(scenario.checkpointing)
    yield "states", scenario.states, scenario.train
    yield "length", scenario.length
    yield "labels", scenario.labels
    yield "autocast", scenario.autocast
    yield "accumulated", scenario.accumulate
    for line in path:
        yield "line", line
    for way in scenario.ways:
        yield "way", way
