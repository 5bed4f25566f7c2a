"""Formats figures as text, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from patchgen.project.markdown import table_lines
from patchgen.training.memory.collectives import Exchange, Sum, sum_exchanges
from patchgen.training.memory.figures import (
    ROLES,
    Figures,
    Kind,
    Peak,
    find_peak,
    group_activations,
    summarize,
)
from patchgen.training.memory.predict import StepTrace
from patchgen.training.memory.setup import Setup

MOST = 2**16  # rows; no larger batch is tried
_PARTS = {
    "weights": "weights",
    "buffers": "buffers",
    "optimizer": "optimizer states",
    "gradients": "gradients",
}


@dataclass(frozen=True, slots=True)
class Report:
    """All that is reported of one model and setup.

    `most` is the largest batch that fits `card` bytes.
    """

    name: str
    class_name: str
    parameters: int
    setup: Setup
    predicted: Figures | None
    at_peak: Peak | None
    kinds: tuple[Kind, ...]
    measured: Figures | None = None
    assumed: tuple[str, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    card: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; all columns but the first hold numbers."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_report(
    trace: StepTrace | None, measured: Figures | None, name: str, class_name: str, setup: Setup
) -> Report:
    """Return the report of a trace, of measured figures, or of both."""
    if trace is None:
        return Report(name, class_name, 0, setup, None, None, (), measured)
    return Report(
        name,
        class_name,
        trace.parameters,
        setup,
        summarize(trace),
        find_peak(trace),
        group_activations(trace),
        measured,
        trace.assumed,
        trace.exchanges,
    )


def format_size(count: float) -> str:
    """Return a number of bytes in decimal units with three digits, such as "12.9 GB"."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= 0.9995 * unit:
            digits = 2 if abs(count) < 9.995 * unit else 1 if abs(count) < 99.95 * unit else 0
            return f"{count / unit:.{digits}f} {name}"
    return f"{count:.0f} B"


def as_text(report: Report) -> str:
    """Return tables aligned by spaces."""
    parts = [_head(report)]
    parts += [_aligned(table) for table in _tables(report)]
    return "\n".join([*parts, *_notes(report)])


def as_markdown(report: Report) -> str:
    """Return tables in Markdown."""
    parts = [_head(report)]
    parts += [_marked(table) for table in _tables(report)]
    return "\n".join([*parts, *_notes(report)])


def as_json(report: Report) -> str:
    """Return one JSON object, with every size in bytes."""
    whole: dict[str, Any] = {
        "model": report.name,
        "class": report.class_name,
        "parameters": report.parameters,
        "setup": asdict(report.setup),
        "predicted": _object(report.predicted),
        "measured": _object(report.measured),
        "at_peak": None,
        "activations": [asdict(kind) for kind in report.kinds],
        "assumed": list(report.assumed),
        "exchanged": [asdict(each) for each in sum_exchanges(report.exchanges)],
        "card": report.card,
        "largest_batch": report.most,
    }
    if report.at_peak is not None:
        whole["at_peak"] = {**asdict(report.at_peak), "roles": dict(report.at_peak.roles)}
    return json.dumps(whole, indent=1) + "\n"


def _object(found: Figures | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        **{each.name: getattr(found, each.name) for each in fields(found)},
        "peaks": dict(found.peaks),
    }


def _head(report: Report) -> str:
    count = (
        f"{report.parameters / 1e6:,.1f} M"
        if report.parameters >= 1e6
        else f"{report.parameters:,}"
    )
    many = f", {count} parameters" if report.parameters else ""
    return f"{report.class_name} ({report.name}){many}: {report.setup.describe()}\n"


def _tables(report: Report) -> Iterable[Table]:
    yield _compared(report)
    if report.at_peak is not None:
        yield _at_peak(report.at_peak)
        yield _activations(report.kinds, report.setup)
    if report.exchanges:
        yield _sent(sum_exchanges(report.exchanges))


def _compared(report: Report) -> Table:
    """Return the figures, predicted and measured."""
    both = {"predicted": report.predicted, "measured": report.measured}
    found = {name: figures for name, figures in both.items() if figures is not None}
    columns = list(found.values())
    rows = [(label, [getattr(each, name) for each in columns]) for name, label in _PARTS.items()]
    if any(each.exchange for each in columns):
        rows.append(("buckets", [each.exchange for each in columns]))
    rows.append(("saved activations", [each.saved for each in columns]))
    for phase, _ in columns[0].peaks:
        rows.append((f"peak in {phase}", [dict(each.peaks)[phase] for each in columns]))
    rows.append(("peak", [each.peak for each in columns]))
    cells = [(label, *map(format_size, values), *_relative_error(values)) for label, values in rows]
    error = ["error"] if len(columns) > 1 else []
    return Table(("kind", *found, *error), tuple(cells))


def _relative_error(values: Sequence[int]) -> list[str]:
    if len(values) < 2:
        return []
    guess, truth = values
    return [f"{guess / truth - 1:+.2%}" if truth else "0" if guess == truth else "-"]


def _at_peak(found: Peak) -> Table:
    rows = [
        (ROLES[role], format_size(count), f"{count / found.bytes:.1%}")
        for role, count in found.roles
    ]
    where = f" in {found.path}" if found.path else ""
    rows.append(("in total", format_size(found.bytes), "100.0%"))
    return Table(
        (f"at the peak: {found.phase}, {found.maker}{where}", "size", "share"), tuple(rows)
    )


def _activations(found: Sequence[Kind], setup: Setup) -> Table:
    """Return what autograd saves, by the modules that made it."""
    total = sum(kind.bytes for kind in found) or 1
    rows = [
        (
            f"{kind.path} ({kind.class_name})" if kind.path else f"{kind.class_name} itself",
            str(kind.layers),
            format_size(kind.bytes),
            format_size(kind.bytes / setup.tokens / kind.layers),
            f"{kind.bytes / total:.1%}",
        )
        for kind in found
        if kind.bytes
    ]
    return Table(
        ("saved activations, made by", "layers", "size", "per token and layer", "share"),
        tuple(rows),
    )


def _sent(found: Sequence[Sum]) -> Table:
    """Return what ranks send to each other in a step."""
    rows = [
        (
            f"{each.kind}, {each.phase}",
            str(each.times),
            f"{each.ranks:,}",
            format_size(each.bytes),
            format_size(each.sent),
        )
        for each in found
    ]
    rows.append(("in total", "", "", "", format_size(sum(each.sent for each in found))))
    return Table(("exchanged in a step", "times", "ranks", "whole", "sent by a rank"), tuple(rows))


def _notes(report: Report) -> list[str]:
    """Return the lines below the tables: what fits, and what was assumed."""
    lines = []
    if report.card:
        tokens = report.most * report.setup.length
        more = " or more" if report.most >= MOST else ""  # no larger batch was tried
        lines.append(
            f"A card of {format_size(report.card)} takes a batch of {report.most}{more}, "
            f"{tokens:,} tokens{more}.\n"
        )
    why = "the condition there depends on weights or chance, and is taken as not given"
    layout = report.setup.layout
    if layout is not None and layout.computed:
        lines.append(
            "note: what a rank holds is computed by ZeRO's rule from one process, not traced\n"
        )
    if layout is not None and report.measured is not None:
        what = (
            f"the mean of {layout.ranks} ranks"
            if layout.sends_tokens
            else f"the first of {layout.ranks} ranks"
        )
        lines.append(f"note: measured is {what}\n")
    return [*lines, *(f"note: {place}: {why}\n" for place in report.assumed)]


def _aligned(table: Table) -> str:
    widths = [max(map(len, column)) for column in zip(table.heads, *table.rows, strict=True)]
    lines = []
    for cells in (table.heads, *table.rows):
        first, *rest = (
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        lines.append("  ".join([first, *rest]).rstrip())
    return "".join(f"{line}\n" for line in lines)


def _marked(table: Table) -> str:
    lines = table_lines(table.heads, table.rows, numbers=table.heads[1:])
    return "".join(f"{line}\n" for line in lines)
