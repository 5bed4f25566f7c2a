"""How much of a modular file stands in a parent too, in a row: what it repeats, and would have to keep up with.

In: texts.  Out: the longest common run of lines.  Indentation and blank lines do not count.
"""

from __future__ import annotations

from collections.abc import Sequence


def lines_of(text: str) -> list[str]:
    """The lines that say something, without their indentation."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def longest_run(lines: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many of `lines` stand in `other` in the same order with nothing between, and where they begin."""
    places: dict[str, list[int]] = {}
    for at, line in enumerate(other):
        places.setdefault(line, []).append(at)
    best, first = 0, 0
    runs: dict[int, int] = {}  # the length of the common run that ends at a line of `other`
    for number, line in enumerate(lines, start=1):
        runs = {at: runs.get(at - 1, 0) + 1 for at in places.get(line, ())}
        longest = max(runs.values(), default=0)
        if longest and longest >= best:
            best, first = longest, number - longest
    return best, first
