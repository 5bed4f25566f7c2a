"""How many lines of code a piece of a draft takes, once it is formatted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

# As transformers formats its files.
_WIDTH = 119
_QUOTES = '"""'
_DOCSTRING = re.compile(f"[rRuU]?{_QUOTES}")


def code_length(lines: Iterable[str]) -> int:
    """How many of `lines` hold more than a comment or a piece of a docstring."""
    count = 0
    is_inside = is_docstring = False
    for line in lines:
        text = line.strip()
        if not is_inside:
            is_docstring = _DOCSTRING.match(text) is not None
        is_comment = text.startswith("#") and not is_inside
        count += bool(text) and not is_comment and not is_docstring
        is_inside ^= text.count(_QUOTES) % 2 == 1
    return count


def bracketed(indent: int, opening: str, items: Sequence[str], closing: str) -> list[str]:
    """A call or a head as the formatter breaks it: on one line, on three, or with a line each."""
    outer, inner = " " * indent, " " * (indent + 4)
    line = f"{outer}{opening}{', '.join(items)}{closing}"
    if len(line) <= _WIDTH:
        return [line]
    within = f"{inner}{', '.join(items)}"
    if len(within) <= _WIDTH:
        return [f"{outer}{opening}", within, f"{outer}{closing}"]
    return [f"{outer}{opening}", *(f"{inner}{one}," for one in items), f"{outer}{closing}"]


def import_length(module: str, names: Collection[str]) -> int:
    """How many lines an import from another model's file takes."""
    line = f"from ..{module} import {', '.join(names)}"
    return 1 if len(line) <= _WIDTH else len(names) + 2
