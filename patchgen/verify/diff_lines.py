"""Which lines of the new file does a unified diff add or touch?

Before::

    @@ -200,2 +201,3 @@
     class AlbertLayer(nn.Module):
    -    def forward(self, x):
    +    def forward(self, x, mask):
    +        x = x + mask

After: 202 and 203.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def find_added_lines(diff: str) -> frozenset[int]:
    """The numbers of the lines that a unified diff adds, in the new file."""
    return frozenset(number for sign, number in _marked(diff) if sign == "+")


def find_touched_lines(diff: str) -> frozenset[int]:
    """Those that a unified diff adds, and those that stand where it removes some."""
    return frozenset(number for _, number in _marked(diff))


def _marked(diff: str) -> Iterator[tuple[str, int]]:
    """The sign of each line that is added or removed, and where that is in the new file."""
    number = 0
    for line in diff.split("\n"):
        begins = _HUNK.match(line)
        if begins:
            number = int(begins[1])
        elif not number or line.startswith("\\"):
            continue  # the names of both files, and a missing end of line
        elif line.startswith("-"):
            yield "-", number
        else:
            if line.startswith("+"):
                yield "+", number
            number += 1
