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

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def find_added_lines(diff: str) -> frozenset[int]:
    """The numbers of the lines that a unified diff adds, in the new file."""
    return frozenset(new for sign, _, new in _marked(diff) if sign == "+")


def find_touched_lines(diff: str, *, of_old: bool = False) -> frozenset[int]:
    """Those that a unified diff adds to or removes from a file, and what stands in their place."""
    return frozenset(old if of_old else new for _, old, new in _marked(diff))


def _marked(diff: str) -> Iterator[tuple[str, int, int]]:
    """The sign of each line that is added or removed, and where that is in both files."""
    old = new = 0
    for line in diff.split("\n"):
        begins = _HUNK.match(line)
        if begins:
            old, new = int(begins[1]), int(begins[2])
        elif not new or line.startswith("\\"):
            continue  # the names of both files, and a missing end of line
        else:
            if line.startswith(("+", "-")):
                yield line[0], old, new
            old += not line.startswith("+")
            new += not line.startswith("-")
