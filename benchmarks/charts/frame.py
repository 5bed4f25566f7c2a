"""What charts share: colours, escaped text, ticks, legends and the outer element.

Coordinates are pixels of the viewBox, y downwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

# Okabe and Ito's colours, distinct for any colour vision; the second is for dark backgrounds.
COLOURS = (
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#e8834a"),
    ("#009e73", "#2fbf97"),
    ("#cc79a7", "#dd9bc0"),
    ("#b58900", "#f0e442"),
    ("#6e7781", "#9aa4ae"),
    ("#5b4db1", "#a79bf0"),
    ("#8c510a", "#c99a5b"),
)
LETTER = 6.6  # approximate width of a letter of 12 px


def style() -> str:
    """Return the style sheet: classes s0, s1, ... for series, with `fill` or `line`."""
    rules = [
        "text{font:12px system-ui,sans-serif;fill:#57606a}",
        ".title{font-weight:600}",
        ".value{font-weight:600}",
        ".grid{stroke:#8b949e;stroke-opacity:.3}",
        ".spread{stroke:#24292f;stroke-width:1.5}",
        ".target{stroke:#bf3989;stroke-width:2;stroke-dasharray:4 2}",
        ".line{fill:none;stroke-width:2;stroke-linejoin:round}",
        *(_series(number, colour) for number, (colour, _) in enumerate(COLOURS)),
    ]
    dark = ["text{fill:#adbac7}", ".spread{stroke:#cdd9e5}", ".target{stroke:#f778ba}"]
    dark += [_series(number, colour) for number, (_, colour) in enumerate(COLOURS)]
    return (
        "<style>"
        + "".join(rules)
        + "@media(prefers-color-scheme:dark){"
        + "".join(dark)
        + "}</style>"
    )


def _series(number: int, colour: str) -> str:
    return f".fill.s{number}{{fill:{colour}}}.line.s{number}{{stroke:{colour}}}"


def series(number: int) -> str:
    """Return the class of a series; colours repeat after the last one."""
    return f"s{number % len(COLOURS)}"


def text(x: float, y: float, content: str, *, anchor: str = "start", kind: str = "") -> str:
    """Return a text element with escaped content."""
    marks = (f' class="{kind}"' if kind else "") + (
        f' text-anchor="{anchor}"' if anchor != "start" else ""
    )
    return f'<text x="{x:.1f}" y="{y:.1f}"{marks}>{escape(content)}</text>'


def upright(x: float, y: float, content: str) -> str:
    """Return a text that is read from the bottom to the top, centred at (x, y)."""
    turned = f'transform="rotate(-90 {x:.1f} {y:.1f})"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" {turned}>{escape(content)}</text>'


def text_width(content: str) -> float:
    """Return the approximate width of a text in pixels."""
    return LETTER * len(content)


def legend(names: Sequence[str], x: float, y: float) -> str:
    """Return a row of coloured squares with names; "" for fewer than two."""
    parts = []
    for number, name in enumerate(names if len(names) > 1 else ()):
        parts.append(
            f'<rect class="fill {series(number)}" x="{x:.1f}" y="{y - 9:.1f}" '
            'width="10" height="10" rx="2"/>'
        )
        parts.append(text(x + 14, y, name))
        x += 28 + text_width(name)
    return "".join(parts)


def ticks(low: float, high: float, most: int = 6) -> tuple[float, ...]:
    """Return round numbers, 1, 2 or 5 times a power of ten apart, that include `low` and `high`."""
    span = high - low if high > low else abs(high) or 1.0
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(step * number for number in range(first, max(last, first + 1) + 1))


def decades(low: float, high: float) -> tuple[float, ...]:
    """Return 1, 2 and 5 times powers of ten that include `low`, above 0, and `high`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]
    begin = max(
        (index for index, value in enumerate(every) if value <= low * (1 + 1e-9)), default=0
    )
    end = min(
        (index for index, value in enumerate(every) if value >= high * (1 - 1e-9)),
        default=len(every) - 1,
    )
    return tuple(every[begin : max(end, begin + 1) + 1])


def format_number(value: float) -> str:
    """Return a number for a tick or a bar, such as 0.05, 1.5, 320, 12.5k or 3.2M."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{value:.4g}"


def chart(title: str, width: float, height: float, inside: Iterable[str]) -> str:
    """Return the whole document; screen readers read the title."""
    named = escape(title)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{named}">{style()}{text(8, 16, title, kind="title")}{"".join(inside)}</svg>\n'
    )
