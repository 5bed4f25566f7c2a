"""What the figures of one case say of each variant.

Speeds differ where the interquartile ranges of their steps do not overlap, memory where peaks differ by more than one
in twenty.  The order of the words:

    wrong      its numbers are not right: nothing else counts
    slower     than the fastest that transformers has, and not smaller
    redundant  no faster and no smaller than the five lines, which are no variant
    faster     than the fastest that transformers has
    smaller    not faster than it, and takes less memory
    tie        nothing of all this
    unknown    it did not run, or nothing that it could stand beside did
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from patchgen.bench.case import Case, Target
from patchgen.bench.contestant import Contestant
from patchgen.bench.result import Result

Word = Literal["wrong", "slower", "redundant", "faster", "smaller", "tie", "unknown"]
LESS = 0.95  # of a peak, below which it is less


@dataclass(frozen=True, slots=True)
class Verdict:
    """`speed` and `memory` are ratios to `against`, the fastest baseline: above one is faster, below one smaller."""

    word: Word
    against: str = ""
    speed: float | None = None
    memory: float | None = None
    note: str = ""


def verdicts(case: Case, results: Mapping[str, Result]) -> dict[str, Verdict]:
    """Of each variant of the case that has a result."""
    return {
        one.name: verdict(results[one.name], _of(case, results, "baseline"), _of(case, results, "rival"))
        for one in case.contestants
        if one.role == "variant" and one.name in results
    }


def _of(case: Case, results: Mapping[str, Result], role: str) -> dict[str, Result]:
    names = [one.name for one in case.contestants if one.role == role and one.name in results]
    return {name: results[name] for name in names if _stands(results[name])}


def _stands(result: Result) -> bool:
    return result.counts or (result.status == "ok" and result.rows is not None)


def verdict(variant: Result, baselines: Mapping[str, Result], rivals: Mapping[str, Result]) -> Verdict:
    """Of one variant beside those that ran."""
    if variant.status == "wrong":
        return Verdict("wrong", note=variant.note)
    if not variant.counts:
        return Verdict("unknown", note=variant.note or variant.status)
    against = fastest(baselines)
    if against is None:
        return Verdict("unknown", note="nothing that transformers has ran beside it")
    base = baselines[against]
    if variant.rows is not None and base.rows is not None:
        return _by_rows(variant, base, against)
    faster, slower, smaller = is_faster(variant, base), is_faster(base, variant), is_smaller(variant, base)
    said = partial(Verdict, against=against, speed=variant.speed.median / base.speed.median)
    memory = _memory(variant, base)
    if slower and not smaller:
        return said("slower", memory=memory)
    rival = fastest(rivals)
    if rival is not None and not is_faster(variant, rivals[rival]) and not is_smaller(variant, rivals[rival]):
        times = variant.speed.median / rivals[rival].speed.median
        return said("redundant", memory=memory, note=f"{rival} does as well ({times:.2f} times its speed)")
    if faster:
        return said("faster", memory=memory)
    return said("smaller" if smaller else "tie", memory=memory)


def _by_rows(variant: Result, base: Result, against: str) -> Verdict:
    """Of what fits: more rows are smaller ones."""
    assert variant.rows is not None and base.rows is not None
    speed, memory = variant.speed.median / base.speed.median, base.rows / variant.rows
    return Verdict("smaller" if variant.rows > base.rows else "tie", against, speed, memory)


def fastest(results: Mapping[str, Result]) -> str | None:
    """The one with the most real tokens in a second; where rows were asked for, with the most rows."""
    timed = {name: result for name, result in results.items() if result.counts}
    return max(timed, key=lambda name: (timed[name].rows or 0, timed[name].speed.median), default=None)


def is_faster(one: Result, other: Result) -> bool:
    """Whether it has more real tokens in a second, and the quartiles do not overlap."""
    return one.speed.apart_from(other.speed) and one.speed.median > other.speed.median


def is_smaller(one: Result, other: Result) -> bool:
    """Whether its peak is clearly lower."""
    ratio = _memory(one, other)
    return ratio is not None and ratio < LESS


def _memory(one: Result, other: Result) -> float | None:
    """Of the peaks; None where one is not known, or the batches are not the same."""
    return one.peak / other.peak if one.peak and other.peak and one.tokens == other.tokens else None


@dataclass(frozen=True, slots=True)
class Reached:
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
        return self.ratio <= self.target.ratio if self.target.metric == "memory" else self.ratio >= self.target.ratio


def reached(case: Case, results: Mapping[str, Result], work: float = 0.0) -> tuple[Reached, ...]:
    """Each target of the case, by the best of those that it names against the best of the others.

    `work` is what a real token takes, in operations; 0 where that is not known.
    """
    return tuple(_reached(case, results, target, work) for target in case.targets)


def _reached(case: Case, results: Mapping[str, Result], target: Target, work: float) -> Reached:
    ours = _figures(case, results, target, target.who)
    if target.metric == "rate":
        who = max(ours, key=ours.__getitem__, default="")
        return Reached(target, work * ours[who] if who and work else None, who)
    theirs = _figures(case, results, target, target.against)
    if not ours or not theirs:
        return Reached(target, None)
    best = min if target.metric == "memory" else max
    who, against = best(ours, key=ours.__getitem__), best(theirs, key=theirs.__getitem__)
    return Reached(target, ours[who] / theirs[against], who, against)


def _figures(case: Case, results: Mapping[str, Result], target: Target, names: Iterable[str]) -> dict[str, float]:
    wanted = [one for one in case.contestants if _is_meant(one, names) and one.name in results]
    found = {one.name: _figure(results[one.name], target) for one in wanted}
    return {name: value for name, value in found.items() if value is not None}


def _is_meant(contestant: Contestant, names: Iterable[str]) -> bool:
    """By its own name, or by its variant's, however that is run."""
    return contestant.name in names or contestant.variant in names


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
            return result.tokens / sorted(result.block)[len(result.block) // 2] if result.block else None
