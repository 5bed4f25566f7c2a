"""Draws the memory of one step over time, by kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from patchgen.training.charts.frame import (
    chart,
    legend,
    series,
    text,
    text_width,
    ticks,
    upright,
)
from patchgen.training.memory.figures import find_peak, find_role
from patchgen.training.memory.predict import StepTrace
from patchgen.training.memory.report import format_size

# Roles that are drawn as one area, from bottom to top; every role is in one of them.
LAYERS = {
    "weights": ("weights", "buffers", "inputs"),
    "optimizer": ("optimizer",),
    "gradients": ("gradients",),
    # Copies of weights in another dtype or from other ranks, and communication buffers.
    "copies": ("casts", "gathered", "exchange"),
    "activations": ("activations",),
    "recomputed": ("recomputed",),
    "logits": ("logits",),
    "temporary": ("temporary",),
}
LEFT, TOP, WIDTH, HEIGHT = 88, 66, 640, 260
BOLD = 1.1  # how much wider bold text is
COLUMNS = 320  # points of the chart; each is the highest moment of its interval


@dataclass(frozen=True, slots=True)
class _Scale:
    """Moments and bytes to pixels."""

    first: int
    last: int
    most: float

    def x(self, moment: float) -> float:
        return LEFT + WIDTH * (moment - self.first) / max(1, self.last - self.first)

    def y(self, count: float) -> float:
        return TOP + HEIGHT * (1 - count / self.most)


def as_svg(trace: StepTrace, room: int = 0) -> str:
    """Return the chart; `room`, the memory of a card, is drawn as a line."""
    columns = list(_columns(trace))
    marks = ticks(0, max(max(sum(held) for _, held in columns), room) / 1e9)
    scale = _Scale(columns[0][0], columns[-1][0], marks[-1] * 1e9)
    inside = [legend(list(LAYERS), LEFT, 34), *_grid(marks, scale), *_areas(columns, scale)]
    inside += _phases(trace, scale)
    inside.append(upright(16, TOP + HEIGHT / 2, "memory held"))
    across = "one training step, allocation by allocation"
    inside.append(text(LEFT + WIDTH / 2, TOP + HEIGHT + 36, across, anchor="middle"))
    if room:
        y = scale.y(room)
        inside.append(
            f'<line class="target" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        label = f"the device has {format_size(room)}"
        inside.append(text(LEFT + WIDTH - 4, y + 15, label, anchor="end", kind="value"))
    highest = find_peak(trace)
    title = f"{trace.target.name}, {trace.setup.describe()}: peak {format_size(highest.bytes)}"
    return chart(
        title, max(LEFT + WIDTH + 16, BOLD * text_width(title) + 16), TOP + HEIGHT + 48, inside
    )


def _columns(trace: StepTrace) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (moment, bytes of each layer) at the highest moment of each of `COLUMNS` intervals."""
    layer_of = {role: index for index, roles in enumerate(LAYERS.values()) for role in roles}
    changes: list[tuple[int, int, int]] = []
    for allocation in trace.allocations:
        layer = layer_of[find_role(allocation, trace)]
        changes.append((allocation.born, layer, allocation.bytes))
        if allocation.died is not None:
            changes.append((allocation.died, layer, -allocation.bytes))
    begin = trace.starts[0][0]
    stretch = max(1.0, (trace.end - begin) / COLUMNS)
    held = [0] * len(LAYERS)
    best: tuple[int, tuple[int, ...]] | None = None
    column = 0
    for moment, layer, change in sorted(changes):
        if moment >= begin and int((moment - begin) / stretch) > column and best is not None:
            yield best
            column, best = int((moment - begin) / stretch), None
        held[layer] += change
        if moment >= begin - 1 and (best is None or sum(held) > sum(best[1])):
            best = max(moment, begin), tuple(held)
    yield trace.end, tuple(held)


def _areas(columns: Sequence[tuple[int, tuple[int, ...]]], scale: _Scale) -> Iterator[str]:
    """Yield an area for each layer, on top of those before it."""
    heaps = [(moment, [0, *accumulate(held)]) for moment, held in columns]
    for index in range(len(LAYERS)):
        if not any(heap[index + 1] > heap[index] for _, heap in heaps):
            continue
        above = [f"{scale.x(moment):.1f},{scale.y(heap[index + 1]):.1f}" for moment, heap in heaps]
        below = [
            f"{scale.x(moment):.1f},{scale.y(heap[index]):.1f}" for moment, heap in reversed(heaps)
        ]
        yield f'<path class="fill {series(index)}" d="M{" ".join([*above, *below])}Z"/>'


def _grid(marks: Sequence[float], scale: _Scale) -> Iterator[str]:
    for mark in marks:
        y = scale.y(mark * 1e9)
        yield f'<line class="grid" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield text(LEFT - 6, y + 4, format_size(mark * 1e9) if mark else "0", anchor="end")


def _phases(trace: StepTrace, scale: _Scale) -> Iterator[str]:
    """Yield a line where each phase begins, with its name where there is room."""
    ends = [*(moment for moment, _ in trace.starts[1:]), trace.end]
    for (moment, phase), end in zip(trace.starts, ends, strict=True):
        x = scale.x(moment)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{TOP + HEIGHT}"/>'
        if scale.x(end) - x > text_width(phase):
            yield text(x + 4, TOP + HEIGHT + 16, phase)
