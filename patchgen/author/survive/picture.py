"""The table as a picture: a square for each variant and release."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from patchgen.author.survive.report import Row
from patchgen.author.survive.states import State

COLOURS = {
    State.SAME: "#9ecae1",
    State.CHANGED: "#4292c6",
    State.EDIT: "#fdae6b",
    State.MEMBER: "#e6550d",
    State.PARENT: "#d9d9d9",
    State.REFUSED: "#a63603",
    State.UNREADABLE: "#ffffff",
}
_CELL = 18
_LEFT = 290  # for the names of variants
_TOP = 120  # for the title and the releases
_WIDE = 700  # for the title and the legend
_FONT = 'font-family="DejaVu Sans, Verdana, sans-serif"'


def picture_of(rows: tuple[Row, ...]) -> str:
    """An SVG with variants as rows and releases as columns, oldest to the left."""
    versions = list(rows[0].states) if rows else []
    used = [state for state in State if any(state in row.states.values() for row in rows)]
    width = max(_LEFT + _CELL * len(versions) + 20, _WIDE)
    bottom = _TOP + _CELL * len(rows)
    height = bottom + 24 + 20 * len(used)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" {_FONT} font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<text x="12" y="26" font-size="16">On which releases of transformers each variant '
        "converts</text>",
        *_heads(versions),
        *_squares(rows),
        *_legend(used, bottom + 24),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _heads(versions: list[str]) -> Iterator[str]:
    for place, version in enumerate(versions):
        x, y = _LEFT + _CELL * place + 13, _TOP - 8
        yield f'<text x="{x}" y="{y}" transform="rotate(-60 {x} {y})">{escape(version)}</text>'


def _squares(rows: tuple[Row, ...]) -> Iterator[str]:
    for line, row in enumerate(rows):
        y = _TOP + _CELL * line
        yield f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(row.name)}</text>'
        for place, (version, state) in enumerate(row.states.items()):
            yield (
                f'<rect x="{_LEFT + _CELL * place}" y="{y}" width="{_CELL - 2}" '
                f'height="{_CELL - 2}" fill="{COLOURS[state]}" stroke="#bdbdbd" '
                f'stroke-width="0.5"><title>{escape(f"{row.name} on {version}: {state}")}'
                "</title></rect>"
            )


def _legend(used: list[State], top: int) -> Iterator[str]:
    for line, state in enumerate(used):
        y = top + 20 * line
        yield (
            f'<rect x="{_LEFT}" y="{y - 12}" width="{_CELL - 2}" height="{_CELL - 2}" '
            f'fill="{COLOURS[state]}" stroke="#bdbdbd" stroke-width="0.5"/>'
        )
        yield f'<text x="{_LEFT + _CELL + 6}" y="{y + 1}">{escape(_meaning(state))}</text>'


def _meaning(state: State) -> str:
    if state is State.CHANGED:
        return "converts, to another output than on the release before"
    return str(state)
