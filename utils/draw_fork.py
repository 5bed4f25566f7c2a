"""Draw a generated file, line by line, beside the modular file that it comes from, as SVG.

python utils/draw_fork.py > docs/fork.svg
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.charts.frame import chart, text
from patchgen.syntax.lines import code_lines

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER, NAME = "albert", "albert_checkpoint"
TITLE = "ALBERT with activation checkpointing"
COLUMNS, COLUMN, GAP = 4, 84, 10  # number; pixels of width and between
TOP, STEP = 66, 1.4  # pixels above the lines, and from line to line
LETTER = COLUMN / 119  # pixels of width for a letter, so that the longest line fills a column
RIGHT = 8 + COLUMNS * (COLUMN + GAP) + 18  # where the text of the modular file begins
STYLE = (
    "<style>.plain{stroke:#8b949e;stroke-opacity:.55}.ours{stroke:#d55e00}.bar{fill:none}"
    ".code{font:11px ui-monospace,SFMono-Regular,Menlo,monospace;white-space:pre}"
    "@media(prefers-color-scheme:dark){.ours{stroke:#e8834a}}</style>"
)


def draw(folder: str, name: str, title: str) -> str:
    """The picture of modular/FOLDER/modular_NAME.py and its output."""
    output = _read(f"generated/{folder}/modeling_{name}.py").splitlines()
    added = added_lines(_read(f"generated/{folder}/modeling_{name}.diff"))
    # `patchgen list` counts no blank lines either.
    ours = frozenset(number for number in added if output[number - 1].strip())
    modular = _read(f"modular/{folder}/modular_{name}.py")
    height = -(-len(output) // COLUMNS)
    inside = [
        STYLE,
        text(8, 40, f"What patchgen writes: {len(output)} lines", kind="value"),
        text(8, 56, f"orange: the {len(ours)} that were added or changed"),
        text(RIGHT, 40, f"What you write: {code_lines(modular)} lines of code", kind="value"),
        _bars(output, height, "plain", lambda number: number not in ours),
        _bars(output, height, "ours", lambda number: number in ours),
        *_code(modular),
    ]
    return chart(title, 880, TOP + height * STEP + 8, inside)


def _read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def added_lines(diff: str) -> Iterator[int]:
    """The numbers, from 1, of the lines that a unified diff adds."""
    number = 0
    for line in diff.splitlines():
        begin = re.match(r"@@ -\S+ \+(\d+)", line)
        if begin:
            number = int(begin[1])
        elif number and not line.startswith("-"):
            if line.startswith("+"):
                yield number
            number += 1


def _bars(lines: list[str], height: int, kind: str, wanted: Callable[[int], bool]) -> str:
    """A path with a bar for each wanted line: its indentation and its length."""
    steps = []
    for index, line in enumerate(lines):
        if not line.strip() or not wanted(index + 1):
            continue
        column, row = divmod(index, height)
        indent = len(line) - len(line.lstrip())
        x = 8 + column * (COLUMN + GAP) + indent * LETTER
        steps.append(f"M{x:.0f} {TOP + row * STEP:.1f}h{(len(line) - indent) * LETTER:.0f}")
    width = 3 if kind == "ours" else 1
    return f'<path class="bar {kind}" stroke-width="{width}" d="{"".join(steps)}"/>'


def _code(modular: str) -> Iterator[str]:
    """The modular file from its first import on."""
    lines = modular.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(("from ", "import ")))
    for row, line in enumerate(lines[first:]):
        yield text(RIGHT, TOP + 12 + 15 * row, line, kind="code")


if __name__ == "__main__":
    print(draw(FOLDER, NAME, TITLE), end="")
