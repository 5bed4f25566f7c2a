"""Lines over one axis, such as a loss over steps."""

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
    upright,
)

LEFT, TOP, WIDTH, HEIGHT, RIGHT, BOTTOM = 76, 56, 560, 280, 24, 44


@dataclass(frozen=True, slots=True)
class Line:
    """Points (x, y) in drawing order; a y that is not finite interrupts the line.

    With `dots`, each point is drawn on its own.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    dots: bool = False


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values to pixels: the first mark at `begin`, the last at `end`."""

    marks: tuple[float, ...]
    begin: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        low, high = self.marks[0], self.marks[-1]
        part = (
            math.log(value / low) / math.log(high / low)
            if self.logarithmic
            else (value - low) / (high - low)
        )
        return self.begin + (self.end - self.begin) * part


def lines(
    title: str, rows: Sequence[Line], *, across: str, up: str, logarithmic: bool = False
) -> str:
    """Return the chart; `across` and `up` are the titles of the axes, with units.

    `logarithmic` is for the vertical axis.  Raises ValueError where there is no point to draw, and
    for y at or below 0 on a logarithmic axis.
    """
    points = [
        (x, y) for row in rows for x, y in row.points if math.isfinite(x) and math.isfinite(y)
    ]
    if not points:
        raise ValueError(f"{title}: there is no point to draw")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    if logarithmic and min(ys) <= 0:
        raise ValueError(f"{title}: a logarithmic axis cannot show {min(ys)}")
    level = _Scale(ticks(min(xs), max(xs), 8), LEFT, LEFT + WIDTH)
    marks = decades(min(ys), max(ys)) if logarithmic else ticks(min(ys), max(ys))
    steep = _Scale(marks, TOP + HEIGHT, TOP, logarithmic)
    inside = [legend([row.name for row in rows], 8, 36), _grid(level, steep)]
    inside += [_line(row, number, level, steep) for number, row in enumerate(rows)]
    inside.append(text(LEFT + WIDTH / 2, TOP + HEIGHT + 36, across, anchor="middle"))
    inside.append(upright(16, TOP + HEIGHT / 2, up))
    named = sum(text_width(row.name) + 28 for row in rows) + 16
    return chart(
        title,
        max(LEFT + WIDTH + RIGHT, named, text_width(title) + 16),
        TOP + HEIGHT + BOTTOM,
        inside,
    )


def _grid(level: _Scale, steep: _Scale) -> str:
    parts = []
    for mark in level.marks:
        at = level.at(mark)
        parts.append(
            f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{TOP + HEIGHT}"/>'
        )
        parts.append(text(at, TOP + HEIGHT + 18, format_number(mark), anchor="middle"))
    for mark in steep.marks:
        at = steep.at(mark)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        parts.append(text(LEFT - 6, at + 4, format_number(mark), anchor="end"))
    return "".join(parts)


def _line(row: Line, number: int, level: _Scale, steep: _Scale) -> str:
    if row.dots:
        return _dots(row, number, level, steep)
    parts, pen = [], "M"
    for x, y in row.points:
        if not (math.isfinite(x) and math.isfinite(y)):
            pen = "M"
            continue
        parts.append(f"{pen}{level.at(x):.1f} {steep.at(y):.1f}")
        pen = "L"
    return f'<path class="line {series(number)}" d="{"".join(parts)}"/>' if parts else ""


def _dots(row: Line, number: int, level: _Scale, steep: _Scale) -> str:
    return "".join(
        f'<circle class="fill {series(number)}" r="4" '
        f'cx="{level.at(x):.1f}" cy="{steep.at(y):.1f}"/>'
        for x, y in row.points
        if math.isfinite(x) and math.isfinite(y)
    )
