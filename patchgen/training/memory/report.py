"""Formats figures as text and JSON, and draws a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from patchgen import disk
from patchgen.project.origin import install_hint
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.memory.figures import (
    ROLES,
    Figures,
    Kind,
    Peak,
    find_peak,
    find_role,
    group_activations,
    shares,
    summarize,
)
from patchgen.training.memory.step import Setup, StepTrace

MOST = 2**16  # rows; no larger batch is tried
Table: TypeAlias = "list[tuple[str, ...]]"  # the headings, and rows; first columns hold no numbers
PARTS = ("weights", "buffers", "optimizer", "gradients", "saved")


@dataclass(frozen=True, slots=True)
class Report:
    """All that is reported of one model and setup; `most` is the largest batch for `card` bytes."""

    name: str
    class_name: str
    setup: Setup
    trace: StepTrace | None = None
    measured: Figures | None = None
    card: int = 0
    most: int = 0


def format_size(count: float) -> str:
    """Return a number of bytes in decimal units with three digits, such as "12.9 GB"."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= 0.9995 * unit:
            digits = 2 if abs(count) < 9.995 * unit else 1 if abs(count) < 99.95 * unit else 0
            return f"{count / unit:.{digits}f} {name}"
    return f"{count:.0f} B"


def as_text(report: Report) -> str:
    """Return tables aligned by spaces."""
    parts = [_aligned(table) for table in _tables(report)]
    return "\n".join([_head(report), *parts, *_notes(report)])


def as_data(report: Report) -> dict[str, Any]:
    """Return the report for JSON, with every size in bytes."""
    trace = report.trace
    setup = {**asdict(report.setup), "engine": report.setup.engine.name}
    return {
        "model": report.name,
        "class": report.class_name,
        "parameters": trace.parameters if trace else 0,
        "setup": {**setup, "ranks": report.setup.engine.launch.world},
        "predicted": asdict(summarize(trace)) if trace else None,
        "measured": asdict(report.measured) if report.measured else None,
        "at_peak": asdict(find_peak(trace)) if trace else None,
        "activations": [asdict(kind) for kind in group_activations(trace)] if trace else [],
        "assumed": list(trace.assumed) if trace else [],
        "card": report.card,
        "largest_batch": report.most,
    }


def _head(report: Report) -> str:
    count = report.trace.parameters if report.trace else 0
    size = f"{count / 1e6:,.1f} M" if count >= 1e6 else f"{count:,}"
    many = f", {size} parameters" if count else ""
    return f"{report.class_name} ({report.name}){many}: {report.setup.describe()}\n"


def _tables(report: Report) -> Iterable[Table]:
    figures = {}
    if report.trace:
        figures["predicted"] = summarize(report.trace)
    if report.measured:
        figures["measured"] = report.measured
    yield _compared(figures)
    if report.trace:
        yield _at_peak(find_peak(report.trace))
        yield _activations(group_activations(report.trace), report.setup)


def _compared(figures: dict[str, Figures]) -> Table:
    """Return the figures, predicted and measured."""
    columns = [_sizes(column) for column in figures.values()]
    heads = ["kind", *figures]
    if len(columns) == 2:
        heads.append("error")
    table: Table = [tuple(heads)]
    for label in columns[0]:
        sizes = [column[label] for column in columns]
        cells = [label, *map(format_size, sizes)]
        if len(columns) == 2:
            cells.append(_error(*sizes))
        table.append(tuple(cells))
    return table


def _sizes(figures: Figures) -> dict[str, int]:
    """Return the bytes of each part and of each peak, by what a table calls them."""
    sizes = {ROLES.get(part, "saved activations"): getattr(figures, part) for part in PARTS}
    for phase, peak in figures.peaks.items():
        sizes[f"peak in {phase}"] = peak
    return {**sizes, "peak": figures.peak}


def _error(predicted: int, measured: int) -> str:
    if measured:
        return f"{predicted / measured - 1:+.2%}"
    return "-" if predicted else "0"


def _at_peak(peak: Peak) -> Table:
    head = f"at the peak: {peak.phase}, {peak.maker}"
    if peak.path:
        head += f" in {peak.path}"
    table: Table = [(head, "size", "share")]
    for role, size in peak.roles.items():
        share = f"{size / peak.bytes:.1%}"
        table.append((ROLES[role], format_size(size), share))
    table.append(("in total", format_size(peak.bytes), "100.0%"))
    return table


def _activations(kinds: Sequence[Kind], setup: Setup) -> Table:
    """Return what autograd saves, by the modules that made it."""
    total = sum(kind.bytes for kind in kinds)
    tokens = setup.batch * setup.length
    table: Table = [
        ("saved activations, made by", "layers", "size", "per token and layer", "share")
    ]
    for kind in kinds:
        if not kind.bytes:
            continue
        made_by = f"{kind.path} ({kind.class_name})" if kind.path else f"{kind.class_name} itself"
        each = format_size(kind.bytes / tokens / kind.layers)
        share = f"{kind.bytes / total:.1%}"
        table.append((made_by, str(kind.layers), format_size(kind.bytes), each, share))
    return table


def _notes(report: Report) -> list[str]:
    """Return the lines below the tables: what fits, and what was assumed."""
    lines = []
    if report.card:
        tokens = report.most * report.setup.length
        more = " or more" if report.most >= MOST else ""  # no larger batch was tried
        card = format_size(report.card)
        lines.append(f"A card of {card} takes a batch of {report.most}{more}, {tokens:,} tokens.\n")
    engine = report.setup.engine
    if engine.is_distributed:
        divided = ", ".join(ROLES[role] for role in shares(engine)) or "nothing"
        lines.append(
            f"note: {engine.name} divides {divided} by {engine.launch.world}; buffers to send, and "
            "weights that are gathered for a layer, are not counted\n"
        )
    why = "the condition there depends on weights or chance, and is taken as not given"
    assumed = report.trace.assumed if report.trace else ()
    return [*lines, *(f"note: {where}: {why}\n" for where in assumed)]


def _aligned(table: Table) -> str:
    labels, *columns = zip(*table, strict=True)
    aligned = [_padded(labels, str.ljust)]
    for column in columns:
        aligned.append(_padded(column, str.rjust))
    text = ""
    for cells in zip(*aligned, strict=True):
        text += "  ".join(cells).rstrip() + "\n"
    return text


def _padded(column: Sequence[str], align: Callable[[str, int], str]) -> list[str]:
    width = max(map(len, column))
    return [align(cell, width) for cell in column]


def over_time(trace: StepTrace) -> tuple[list[int], dict[str, list[int]]]:
    """Return the moments of a step, and the bytes of each role at each of them."""
    changes = []
    for allocation in trace.allocations:
        role = find_role(allocation, trace)
        changes.append((allocation.born, role, allocation.bytes))
        if allocation.died is not None:
            changes.append((allocation.died, role, -allocation.bytes))
    held = dict.fromkeys(ROLES, 0)
    moments = []
    heights: dict[str, list[int]] = {role: [] for role in ROLES}
    step_begins, _ = trace.starts[0]
    for moment, role, change in sorted(changes):
        held[role] += change
        if moment >= step_begins:
            moments.append(moment)
            for name, height in heights.items():
                height.append(held[name])
    return moments, heights


def draw(trace: StepTrace, path: Path, room: int = 0) -> None:
    """Draw the memory of a step by kind; `room`, the memory of a card, is drawn as a line."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = install_hint("charts")
        raise PatchgenError("PG825", Location("--figure"), "needs matplotlib", hint) from error
    moments, heights = over_time(trace)
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    roles = [role for role in ROLES if any(heights[role])]
    gigabytes = [[count / 1e9 for count in heights[role]] for role in roles]
    axes.stackplot(moments, gigabytes, labels=[ROLES[role] for role in roles], step="post")
    for moment, phase in trace.starts:
        axes.axvline(moment, color="gray", linewidth=0.6)
        axes.annotate(phase, (moment, 1), xycoords=("data", "axes fraction"), va="top")
    if room:
        axes.axhline(room / 1e9, color="black", linestyle="--", label="the card")
    axes.set(
        title=f"{trace.target.name}, {trace.setup.describe()}",
        xlabel="one training step, allocation by allocation",
        ylabel="GB",
    )
    axes.legend(loc="upper left", fontsize="small")
    disk.write_figure(path, figure)
