"""Judges each variant by the figures of one case.

Speeds differ where the interquartile ranges of their steps do not overlap; memory differs where
peaks differ by more than 5 %.  In the order in which they are tested:

wrong      its numbers are wrong: nothing else counts
larger     fewer rows fit than with stock transformers, where the case asks for rows
slower     slower than a stock entry, and not smaller
redundant  no faster and no smaller than five lines of one's own
faster     faster than the fastest stock entry
smaller    not faster, but smaller than all stock entries that are as fast
tie        none of these
unknown    it did not run, or no stock entry did

Where the case asks for rows, "smaller" means that more rows fit.
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
LESS = 0.95  # a peak below this share is smaller


@dataclass(frozen=True, slots=True)
class Verdict:
    """`speed` and `memory` are ratios to the stock entry `against`.

    Above one is faster, below one is smaller.  `against` is the fastest entry; for a variant that
    is not faster, it is the fastest of those that also take as little memory.
    """

    word: Word
    against: str = ""
    speed: float | None = None
    memory: float | None = None
    note: str = ""


def verdicts(case: Case, results: Mapping[str, Result]) -> dict[str, Verdict]:
    """Return the verdict on each variant of the case that has a result."""
    return {
        one.name: verdict(
            results[one.name], _of(case, results, "stock"), _of(case, results, "competitor")
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
    """Judge one variant by the entries that ran."""
    if variant.status == "wrong":
        return Verdict("wrong", note=variant.note)
    if not variant.counts:
        return Verdict("unknown", note=variant.note or variant.status)
    against = fastest(stock)
    if against is None:
        return Verdict("unknown", note="no stock entry ran")
    if not is_faster(variant, stock[against]):
        # A slow variant must also be smaller than stock entries that are slow and small.
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
    make_verdict = partial(
        Verdict,
        against=against,
        speed=variant.speed.median / base.speed.median,
        memory=_memory(variant, base),
    )
    if variant.rows and base.rows and variant.rows < base.rows:
        return make_verdict("larger")
    if slower and not smaller:
        return make_verdict("slower")
    competitor = fastest(
        {name: one for name, one in competitors.items() if _does_as_well(one, variant)}
    )
    if competitor is not None:
        times = variant.speed.median / competitors[competitor].speed.median
        return make_verdict(
            "redundant", note=f"{competitor} does as well ({times:.2f} times its speed)"
        )
    if faster and not (variant.rows and smaller):
        return make_verdict("faster")
    return make_verdict("smaller" if smaller else "tie")


def _does_as_well(one: Result, variant: Result) -> bool:
    return not is_faster(variant, one) and not is_smaller(variant, one)


def fastest(results: Mapping[str, Result]) -> str | None:
    """Return the entry with the most real tokens per second; of cases that ask for rows, the most
    rows.
    """
    timed = {name: result for name, result in results.items() if result.counts}
    return max(
        timed, key=lambda name: (timed[name].rows or 0, timed[name].speed.median), default=None
    )


def is_faster(one: Result, other: Result) -> bool:
    """Return whether it is faster, and the interquartile ranges do not overlap."""
    return one.speed.differs_from(other.speed) and one.speed.median > other.speed.median


def is_smaller(one: Result, other: Result) -> bool:
    """Return whether its peak is clearly lower, or more rows fit."""
    if one.rows and other.rows:
        return one.rows > other.rows
    ratio = _memory(one, other)
    return ratio is not None and ratio < LESS


def _memory(one: Result, other: Result) -> float | None:
    """Return the ratio of peaks, or of bytes per row; None where unknown, or batches differ."""
    if one.rows and other.rows:
        return other.rows / one.rows
    return one.peak / other.peak if one.peak and other.peak and one.tokens == other.tokens else None


@dataclass(frozen=True, slots=True)
class TargetResult:
    """A target and the measured ratio or rate; None where it was not measured."""

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
    """Return the result of each target of the case, by the best of the entries that it names.

    `work` is the FLOPs of a real token; 0 where they are not known.
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
    """Return whether the entry, or its variant in any form, is named."""
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
