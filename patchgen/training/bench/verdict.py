"""What the figures of one case say of each variant.

Speeds differ where the interquartile ranges of their steps do not overlap, memory where peaks differ by more than one
in twenty.  The order of the words:

    wrong      its numbers are not right: nothing else counts
    slower     than something that transformers has, and not smaller than that
    redundant  no faster and no smaller than five lines of one's own, which are no variant
    faster     than the fastest that transformers has
    smaller    not faster than it, and takes less memory than all that is as fast as the variant
    larger     fewer rows fit than with what transformers has, where that was asked
    tie        nothing of all this
    unknown    it did not run, or nothing that it could stand beside did

Where rows were asked for, more of them are smaller, and times count where as many fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from patchgen.training.bench.case import Case, Target
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.result import Result

Word = Literal["wrong", "slower", "redundant", "faster", "smaller", "larger", "tie", "unknown"]
LESS = 0.95  # of a peak, below which it is less


@dataclass(frozen=True, slots=True)
class Verdict:
    """`speed` and `memory` are ratios to the baseline `against`: above one is faster, below one smaller.

    That is the fastest; for a variant that is not faster, the fastest of those that also take as little memory as it.
    """

    word: Word
    against: str = ""
    speed: float | None = None
    memory: float | None = None
    note: str = ""


def verdicts(case: Case, results: Mapping[str, Result]) -> dict[str, Verdict]:
    """Of each variant of the case that has a result."""
    return {
        one.name: verdict(
            results[one.name], _of(case, results, "baseline"), _of(case, results, "rival")
        )
        for one in case.entries
        if one.role == "variant" and one.name in results
    }


def _of(case: Case, results: Mapping[str, Result], role: str) -> dict[str, Result]:
    names = [one.name for one in case.entries if one.role == role and one.name in results]
    return {name: results[name] for name in names if _stands(results[name])}


def _stands(result: Result) -> bool:
    return result.counts or (result.status == "ok" and result.rows is not None)


def verdict(
    variant: Result, stock: Mapping[str, Result], competitors: Mapping[str, Result]
) -> Verdict:
    """Of one variant beside those that ran."""
    if variant.status == "wrong":
        return Verdict("wrong", note=variant.note)
    if not variant.counts:
        return Verdict("unknown", note=variant.note or variant.status)
    against = fastest(stock)
    if against is None:
        return Verdict("unknown", note="nothing that transformers has ran beside it")
    if not is_faster(variant, stock[against]):
        # A slow variant is no gain for being smaller than the fastest where something slow and small is there already.
        as_small = {name: one for name, one in stock.items() if _memory(variant, one) is not None}
        against = (
            fastest({name: one for name, one in as_small.items() if _does_as_well(one, variant)})
            or against
        )
    base = stock[against]
    faster, slower, smaller = (
        is_faster(variant, base),
        is_faster(base, variant),
        is_smaller(variant, base),
    )
    said = partial(
        Verdict,
        against=against,
        speed=variant.speed.median / base.speed.median,
        memory=_memory(variant, base),
    )
    if variant.rows and base.rows and variant.rows < base.rows:
        return said("larger")
    if slower and not smaller:
        return said("slower")
    competitor = fastest(
        {name: one for name, one in competitors.items() if _does_as_well(one, variant)}
    )
    if competitor is not None:
        times = variant.speed.median / competitors[competitor].speed.median
        return said("redundant", note=f"{competitor} does as well ({times:.2f} times its speed)")
    if faster and not (variant.rows and smaller):
        return said("faster")
    return said("smaller" if smaller else "tie")


def _does_as_well(one: Result, variant: Result) -> bool:
    return not is_faster(variant, one) and not is_smaller(variant, one)


def fastest(results: Mapping[str, Result]) -> str | None:
    """The one with the most real tokens in a second; where rows were asked for, with the most rows."""
    timed = {name: result for name, result in results.items() if result.counts}
    return max(
        timed, key=lambda name: (timed[name].rows or 0, timed[name].speed.median), default=None
    )


def is_faster(one: Result, other: Result) -> bool:
    """Whether it has more real tokens in a second, and the quartiles do not overlap."""
    return one.speed.apart_from(other.speed) and one.speed.median > other.speed.median


def is_smaller(one: Result, other: Result) -> bool:
    """Whether its peak is clearly lower, or more rows fit."""
    if one.rows and other.rows:
        return one.rows > other.rows
    ratio = _memory(one, other)
    return ratio is not None and ratio < LESS


def _memory(one: Result, other: Result) -> float | None:
    """Of peaks, or of a row's where rows were asked for; None where one is not known, or batches are not the same."""
    if one.rows and other.rows:
        return other.rows / one.rows
    return one.peak / other.peak if one.peak and other.peak and one.tokens == other.tokens else None


@dataclass(frozen=True, slots=True)
class TargetResult:
    """A target beside what was measured, a ratio or a rate; None where it was not."""

    target: Target
    ratio: float | None
    who: str = ""
    against: str = ""

    @property
    def word(self) -> str:
        if self.ratio is None:
            return "not measured"
        return "reached" if self._is() else "missed"

    def _is(self) -> bool:
        assert self.ratio is not None
        return (
            self.ratio <= self.target.ratio
            if self.target.metric == "memory"
            else self.ratio >= self.target.ratio
        )


def check_targets(
    case: Case, results: Mapping[str, Result], work: float = 0.0
) -> tuple[TargetResult, ...]:
    """Each target of the case, by the best of those that it names against the best of the others.

    `work` is what a real token takes, in operations; 0 where that is not known.
    """
    return tuple(_reached(case, results, target, work) for target in case.targets)


def _reached(
    case: Case, results: Mapping[str, Result], target: Target, work: float
) -> TargetResult:
    ours = _figures(case, results, target, target.who)
    if target.metric == "rate":
        who = max(ours, key=ours.__getitem__, default="")
        return TargetResult(target, work * ours[who] if who and work else None, who)
    theirs = _figures(case, results, target, target.against)
    if not ours or not theirs:
        return TargetResult(target, None)
    best = min if target.metric == "memory" else max
    who, against = best(ours, key=ours.__getitem__), best(theirs, key=theirs.__getitem__)
    return TargetResult(target, ours[who] / theirs[against], who, against)


def _figures(
    case: Case, results: Mapping[str, Result], target: Target, names: Iterable[str]
) -> dict[str, float]:
    wanted = [one for one in case.entries if _is_meant(one, names) and one.name in results]
    found = {one.name: _figure(results[one.name], target) for one in wanted}
    return {name: value for name, value in found.items() if value is not None}


def _is_meant(entry: Entry, names: Iterable[str]) -> bool:
    """By its own name, or by its variant's, however that is run."""
    return entry.name in names or entry.variant in names


def _figure(result: Result, target: Target) -> float | None:
    if not _stands(result):
        return None
    match target.metric:
        case "speed" | "rate":
            return result.speed.median if result.counts else None
        case "memory":
            return result.peak
        case "rows":
            return result.rows
        case "block":
            return (
                result.tokens / sorted(result.block)[len(result.block) // 2]
                if result.block
                else None
            )
