"""Split a bracketed list at its commas.

In: a text and the place of its opening bracket.  Out: the place of the closing one, and the slices
between the commas.  Comments and line ends belong to the entry before them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Strings and comments come first, so that a bracket in them is not taken for one.
_STRING = (
    r"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
)
_TOKEN = re.compile(rf"(?s:{_STRING})|#[^\n]*|[()\[\]{{}},:]")


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a list.

    `text` has no outer blanks.  `after` reaches from its comma to the next entry, and is empty
    without a comma.  `before` holds the comments between an opening bracket and the first entry.
    """

    text: str
    after: str = ""
    before: str = ""

    @property
    def has_comma(self) -> bool:
        """Whether a comma follows."""
        return self.after.startswith(",")


def bracket_span(text: str, start: int = 0) -> tuple[int, int] | None:
    """Where the first round bracket after `start` opens and closes; None if a colon comes first."""
    depth, opened = 0, -1
    for token in _TOKEN.finditer(text, start):
        match token.group():
            case "(" | "[" | "{" as bracket:
                # Brackets of another kind, as in `class A[T](B)`, are stepped over.
                if not depth and bracket == "(" and opened < 0:
                    opened = token.start()
                depth += 1
            case ")" | "]" | "}":
                depth -= 1
                if not depth and opened >= 0:
                    return opened, token.start()
            case ":" if not depth:
                return None
    return None


def colon_after(text: str, start: int) -> int:
    """The place of the colon that ends the header, which goes on at `start`."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        match token.group():
            case "(" | "[" | "{":
                depth += 1
            case ")" | "]" | "}":
                depth -= 1
            case ":" if not depth:
                return token.start()
    raise ValueError("a header without a colon")


def items(text: str) -> tuple[Item, ...]:
    """The entries of `text`, the content of a bracket."""
    commas, depth = [], 0
    for token in _TOKEN.finditer(text):
        match token.group():
            case "(" | "[" | "{":
                depth += 1
            case ")" | "]" | "}":
                depth -= 1
            # Those in an inner bracket separate entries of that one.
            case "," if not depth:
                commas.append(token.start())
    found: list[Item] = []
    start = 0
    for comma in commas:
        before, entry = _split_before(text[start:comma])
        found.append(_attach(found, before, entry))
        found[-1] = Item(entry, ",", found[-1].before)
        start = comma + 1
    before, entry = _split_before(text[start:])
    if entry:
        found.append(_attach(found, before, entry))
    # Comments behind the last entry.
    elif before and found:
        found[-1] = Item(found[-1].text, found[-1].after + before, found[-1].before)
    return tuple(found)


def _attach(found: list[Item], before: str, entry: str) -> Item:
    """The entry.

    A comment above it stands behind the comma of the entry before, and belongs to that one.
    """
    if found and before:
        found[-1] = Item(found[-1].text, found[-1].after + before, found[-1].before)
        before = ""
    return Item(entry, "", before)


def _split_before(text: str) -> tuple[str, str]:
    """The comments at the start of `text` with their line ends, and the rest, stripped."""
    before = []
    while (text := text.lstrip()).startswith("#"):
        line, _, text = text.partition("\n")
        before.append(f"  {line}\n")
    return "".join(before), text.rstrip()


def joined(entries: Sequence[Item]) -> str:
    """Join the entries into the content of a bracket.

    A comma is added where one is needed; none is removed.
    """
    parts = []
    for entry in entries[:-1]:
        comma = "" if entry.has_comma else ","
        # A comma cannot stand behind a comment.
        if comma and _may_end_in_comment(entry.text):
            comma = "\n,"
        parts.append(f"{entry.before}{entry.text}{comma}{entry.after} ")
    parts += [f"{entry.before}{entry.text}{entry.after}" for entry in entries[-1:]]
    # A comment at the end would swallow the bracket.
    text = "".join(parts)
    return f"{text}\n" if _may_end_in_comment(text) else text


def _may_end_in_comment(text: str) -> bool:
    # A `#` in a string costs a line end, which the formatter removes.
    return "#" in text.rpartition("\n")[2]
