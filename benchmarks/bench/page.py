"""Writes the results of a run as one table, and draws them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench.cases import Case
from benchmarks.bench.run import Record, code_of
from patchgen import disk
from patchgen.project.markdown import table_lines
from patchgen.training.memory.report import format_size

OLDER = "older code"  # the variant's file is not the one that was measured
HEADS = ("entry", "rows", "tokens a second", "quartiles", "times", "peak", "predicted", "MFU", "")


def as_markdown(record: Record, cases: Sequence[Case]) -> str:
    """Return a table for each case, with what was expected of it."""
    lines = [", ".join(f"{name} {value}" for name, value in record.machine.items() if value), ""]
    for case in cases:
        results = record.results.get(case.id, {})
        if not results:
            continue
        lines += [f"## {case.id}: {case.about}", ""]
        lines += table_lines(HEADS, list(_rows(case, results)), numbers=HEADS[1:-1])
        lines += ["", *_targets(case, results)]
    return "\n".join(lines).rstrip() + "\n"


def _rows(case: Case, results: dict[str, dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    baseline = results.get(case.baseline.name, {}).get("tokens_a_second")
    for entry in case.entries:
        result = results.get(entry.name, {"status": "no time"})
        is_older = "seconds" in result and result.get("code", "") != code_of(entry)
        age = OLDER if is_older else ""
        yield _row(entry.name, result, baseline, age)
        if "largest" in result:
            yield _row(f"{entry.name}, most rows", result["largest"], baseline, age)


def _row(
    name: str, result: dict[str, Any], baseline: float | None, age: str = ""
) -> tuple[str, ...]:
    speed = result.get("tokens_a_second")
    rows = str(result.get("rows", "-"))
    note = result.get("note", "")
    status = "" if result["status"] == "ok" else f"{result['status']}: {note}".rstrip(": ")
    predicted = result.get("predicted")
    predicted = format_size(predicted) if predicted else "-"
    if speed is None:
        return (name, rows, "-", "-", "-", "-", predicted, "-", status or "ok")
    low, median, high = result["seconds"]
    return (
        name,
        rows,
        f"{speed:,.0f}",
        f"{speed * median / high:,.0f} to {speed * median / low:,.0f}",
        f"{speed / baseline:.2f}" if baseline else "-",
        format_size(result["peak"]),
        predicted,
        f"{result['mfu']:.1%}" if "mfu" in result else "-",
        ", ".join(filter(None, (status, age))),
    )


def _targets(case: Case, results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each expectation: what was expected, and what was measured."""
    for who, against, metric, wanted in case.targets:
        ours = _best(results, who, metric)
        theirs = _best(results, against, metric)
        times = "not measured"
        if ours and theirs:
            ratio = ours / theirs
            times = f"{ratio:.2f}, {_verdict(ratio, wanted, metric)}"
        bound = "at least" if metric == "speed" else "at most"
        target = f"{bound} {wanted:g} times the {metric} of {' or '.join(against)}"
        yield f"- {' or '.join(who)}: {target}; measured: {times}"
    yield ""


def _best(results: dict[str, dict[str, Any]], names: Iterable[str], metric: str) -> float:
    """The highest speed or the smallest peak of entries; 0 where none was measured."""
    key = "tokens_a_second" if metric == "speed" else "peak"
    measured: list[float] = [results[name][key] for name in names if key in results.get(name, {})]
    best = max if metric == "speed" else min
    return best(measured, default=0)


def _verdict(ratio: float, wanted: float, metric: str) -> str:
    """By how much a target was met or missed, in percent of it."""
    apart = ratio / wanted - 1
    ahead = apart if metric == "speed" else -apart
    return f"met by {ahead:.0%}" if ahead >= 0 else f"missed by {-ahead:.0%}"


def draw(record: Record, cases: Sequence[Case], folder: Path) -> list[Path]:
    """Draw the speed and the peak of each case; nothing without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    drawn = []
    for case in cases:
        timed = {n: r for n, r in record.results.get(case.id, {}).items() if "seconds" in r}
        if not timed:
            continue
        figure = Figure(figsize=(9, 1 + 0.35 * len(timed)), layout="constrained")
        speed, memory = figure.subplots(1, 2, sharey=True)
        speed.barh(list(timed), [each["tokens_a_second"] for each in timed.values()])
        memory.barh(list(timed), [each["peak"] / 1e9 for each in timed.values()])
        speed.set(xlabel="tokens a second")
        memory.set(xlabel="peak memory, GB")
        speed.invert_yaxis()
        figure.suptitle(f"{case.id}: {case.about}", fontsize="medium")
        drawn.append(folder / f"{record.path.stem}-{case.id}.svg")
        disk.write_figure(drawn[-1], figure)
    return drawn
