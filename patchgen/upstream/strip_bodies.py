"""Strip the bodies of classes and functions, so that parsing a file costs a tenth.

    class LlamaMLP(nn.Module):              class LlamaMLP(nn.Module): ...
        def __init__(self): ...      ->

In: the text of a parent file as a formatter leaves it, in which a line that starts at column 0
starts a statement.  Out: a text with the same statements on the same lines, and where each really
ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from patchgen.upstream.tokens import STRING

# Strings and comments are consumed whole, so that nothing in them is taken for the beginning of a
# statement.
_START = re.compile(
    rf"\#[^\n]*+|{STRING}|^(?:@|(class|def|async def) (\w+)|[^\W\d])", re.DOTALL | re.MULTILINE
)


def strip_bodies(text: str) -> tuple[str, Mapping[int, int]]:
    """`text` without bodies, and the last line of each definition by the line of its `def`."""
    parts: list[str] = []
    ends: dict[int, int] = {}
    done, line = 0, 1
    for first, at, after, keyword, name in _definitions(text):
        parts.append(text[done:first])
        line += text.count("\n", done, first)
        end = _end(text, at, after)
        above, inside = text.count("\n", first, at), text.count("\n", at, end)
        # One decorator, and line ends in place of all else: every line keeps its number.
        marker = "@_" + "\n" * above if above else ""
        brackets = "" if keyword == "class" else "()"
        parts.append(f"{marker}{keyword} {name}{brackets}: pass" + "\n" * inside)
        # With the line end of its last line, one line too many is counted.
        ends[line + above] = line + above + inside - text.endswith("\n", at, end)
        line += above + inside
        done = end
    parts.append(text[done:])
    return "".join(parts), ends


def _definitions(text: str) -> Iterator[tuple[int, int, int, str, str]]:
    """Find the definitions.

    For each: where its decorators and it begin, where the next statement begins, keyword and name.
    """
    starts = [match for match in _START.finditer(text) if _begins(text, match)]
    ends = [match.start() for match in starts[1:]] + [len(text)]
    first_decorator: int | None = None
    for match, after in zip(starts, ends, strict=True):
        at = match.start()
        if text[at] == "@":
            # Several decorators belong to one definition.
            if first_decorator is None:
                first_decorator = at
            continue
        if match[1]:
            begin = at if first_decorator is None else first_decorator
            yield begin, at, after, match[1], match[2]
        first_decorator = None


def _begins(text: str, match: re.Match[str]) -> bool:
    at = match.start()
    return text[at] != "#" and (not at or text[at - 1] == "\n")


def _end(text: str, at: int, after: int) -> int:
    """Where the lines of a definition end.

    Comments at column 0 and blank lines belong to what follows.
    """
    end = after
    while end > at:
        line = text.rfind("\n", at, end - 1) + 1
        if line <= at or (text[line] != "#" and text[line:end].strip()):
            break
        end = line
    return end
