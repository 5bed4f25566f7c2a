"""Horizontal bars of one or more parts, with an error bar and a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.charts.frame import (
    chart,
    decades,
    format_number,
    legend,
    series,
    text,
    text_width,
    ticks,
)

LEFT, WIDTH, RIGHT, STEP, TOP = 8, 360, 90, 28, 48


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar whose `parts` are stacked in the colours of the legend.

    `colour` is the number of the first part's colour.  `spread` is (low, high) of the whole bar,
    such as its quartiles.  `caption` is the text after the bar; by default the sum.
    """

    label: str
    parts: tuple[float, ...]
    caption: str = ""
    spread: tuple[float, float] | None = None
    target: float | None = None
    colour: int = 0


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values to pixels, linearly from 0 or logarithmically."""

    marks: tuple[float, ...]
    left: float
    logarithmic: bool

    def x(self, value: float) -> float:
        low, high = self.marks[0], self.marks[-1]
        if self.logarithmic:
            return self.left + WIDTH * math.log(max(value, low) / low) / math.log(high / low)
        return self.left + WIDTH * (value - low) / (high - low)


def bars(
    title: str,
    rows: Sequence[Bar],
    *,
    across: str,
    names: Sequence[str] = (),
    logarithmic: bool = False,
) -> str:
    """Return the chart; `across` is the title of the axis, with its unit.

    A legend shows `names`, of parts or colours, where there are two or more.

    Raises ValueError for a value that is negative or not finite, and for stacked parts on a
    logarithmic axis.
    """
    _refuse(rows, logarithmic)
    left = LEFT + max((text_width(row.label) for row in rows), default=0) + 8
    high = max((_find_end(row) for row in rows), default=0) or 1.0
    axis = _Axis(decades(_least(rows), high) if logarithmic else ticks(0, high), left, logarithmic)
    top = TOP + (18 if len(names) > 1 else 0)
    bottom = top + STEP * len(rows)
    inside = [legend(names, LEFT, 36), _grid(axis, top, bottom)]
    inside += [_row(row, axis, top + STEP * index) for index, row in enumerate(rows)]
    inside.append(text(left + WIDTH / 2, bottom + 18, across, anchor="middle"))
    named = sum(text_width(name) + 28 for name in names) + 16
    width = max(left + WIDTH + RIGHT, text_width(title) + 16, named if len(names) > 1 else 0)
    return chart(title, width, bottom + 28, inside)


def _refuse(rows: Sequence[Bar], logarithmic: bool) -> None:
    for row in rows:
        if not all(math.isfinite(value) and value >= 0 for value in row.parts):
            raise ValueError(f"{row.label}: a bar cannot show {row.parts}")
        if logarithmic and (len(row.parts) != 1 or row.parts[0] <= 0):
            raise ValueError(
                f"{row.label}: a logarithmic axis shows one part above 0, not {row.parts}"
            )


def _find_end(row: Bar) -> float:
    return max(sum(row.parts), row.target or 0.0, row.spread[1] if row.spread else 0.0)


def _least(rows: Sequence[Bar]) -> float:
    return min(min(row.parts[0], row.target or row.parts[0]) for row in rows)


def _grid(axis: _Axis, top: float, bottom: float) -> str:
    parts = []
    for mark in axis.marks:
        at = axis.x(mark)
        parts.append(
            f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top - 4:.1f}" y2="{bottom:.1f}"/>'
        )
        parts.append(text(at, top - 8, format_number(mark), anchor="middle"))
    return "".join(parts)


def _row(row: Bar, axis: _Axis, top: float) -> str:
    parts = [text(axis.left - 8, top + 17, row.label, anchor="end")]
    done = axis.marks[0] if axis.logarithmic else 0.0
    for number, value in enumerate(row.parts):
        begin, end = axis.x(done), axis.x(value if axis.logarithmic else done + value)
        parts.append(
            f'<rect class="fill {series(row.colour + number)}" x="{begin:.1f}" y="{top + 5:.1f}" '
            f'width="{end - begin:.1f}" height="16" rx="2"/>'
        )
        done += value
    if row.spread is not None:
        parts.append(_draw_range(axis.x(row.spread[0]), axis.x(row.spread[1]), top + 13))
    caption = row.caption or format_number(sum(row.parts))
    at = axis.x(max(sum(row.parts), row.spread[1] if row.spread else 0.0)) + 6
    if row.target is not None:
        line = axis.x(row.target)
        parts.append(
            f'<line class="target" x1="{line:.1f}" x2="{line:.1f}" '
            f'y1="{top + 1:.1f}" y2="{top + 25:.1f}"/>'
        )
        at = (
            line + 6 if at - 6 <= line <= at + text_width(caption) else at
        )  # behind the target, not under it
    parts.append(text(at, top + 17, caption, kind="value"))
    return "".join(parts)


def _draw_range(begin: float, end: float, y: float) -> str:
    parts = [f'<line class="spread" x1="{begin:.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>']
    for at in (begin, end):
        parts.append(
            f'<line class="spread" x1="{at:.1f}" x2="{at:.1f}" y1="{y - 4:.1f}" y2="{y + 4:.1f}"/>'
        )
    return "".join(parts)
