"""Draws the speed and the memory of a record as charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from patchgen.training.bench.case import Case
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.record import Record
from patchgen.training.bench.result import Result
from patchgen.training.charts.bars import Bar, bars

GIB = 2**30
# The colour of each role, and what the legend calls it, in the order of the colours.
ROLES = {"stock": 0, "competitor": 1, "variant": 2}
NAMES = ("transformers and its tools", "five lines of one's own", "variant")


def pictures(record: Record, cases: Sequence[Case]) -> dict[str, str]:
    """Return SVG charts by file name: speed and memory of each case that was timed."""
    found = {}
    for case in cases:
        results = record.results(case.id)
        timed = [one for one in case.entries if one.name in results and results[one.name].counts]
        if timed:
            title = f"{case.id}: {case.about}"
            found[f"{case.id}-speed"] = bars(
                title,
                _speeds(timed, results),
                across="tokens per second, without padding (higher is better)",
                names=NAMES,
            )
        peaks = [one for one in timed if results[one.name].peak]
        if peaks:
            rows = [_bar(one, (results[one.name].peak or 0) / GIB) for one in peaks]
            found[f"{case.id}-memory"] = bars(
                f"{case.id}: {case.about}",
                rows,
                across="peak memory, GiB (lower is better)",
                names=NAMES,
            )
    return found


def _speeds(timed: Sequence[Entry], results: Mapping[str, Result]) -> list[Bar]:
    found = []
    for one in sorted(timed, key=lambda one: -results[one.name].speed.median):
        speed = results[one.name].speed
        found.append(
            Bar(one.name, (speed.median,), spread=(speed.low, speed.high), colour=ROLES[one.role])
        )
    return found


def _bar(one: Entry, value: float) -> Bar:
    return Bar(one.name, (value,), caption=f"{value:.1f}", colour=ROLES[one.role])
