"""Statements as text: their trees, changes at positions, and lists of statements as lines.

Facts come from `ast`; changes are made in the text at the positions that `ast` gives, so that
everything else stays byte for byte.  After a change, `syntax.same.is_same_code` tells whether the
text says what was meant.

    x  = f( y )     # kept          the span of `f( y )` becomes "g(y)":
    x  = g(y)     # kept            the rest of the line is not touched
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen.syntax.blocks import first_line
from patchgen.syntax.fragments import Fragment, split_lines
from patchgen.syntax.text import read_tokens
from patchgen.syntax.trees import Function

INDENT = "    "


@dataclass(frozen=True, slots=True)
class Splice:
    """The characters from `start` to `end` of a text become `new`."""

    start: int
    end: int
    new: str


def splice(text: str, splices: Iterable[Splice], start: int = 0, end: int | None = None) -> str:
    """`text[start:end]` with the changes that lie inside; one inside another is dropped."""
    if end is None:
        end = len(text)
    done: list[str] = []
    at = start
    # Of two changes that begin together, the outer one comes first.
    for change in sorted(set(splices), key=lambda s: (s.start, -s.end)):
        # The outer change already has the text of the inner one.
        if change.start < at or change.end > end:
            continue
        done += [text[at : change.start], change.new]
        at = change.end
    return "".join([*done, text[at:end]])


# Lists of statements


def indent_of(line: str) -> str:
    """The white space that `line` begins with."""
    return line[: len(line) - len(line.lstrip())]


def reindent(text: str, old: str, new: str) -> str:
    """Replace the indentation `old` of whole lines by `new`; strings stay as they are."""
    if old == new:
        return text
    inside = _find_string_lines(text)
    lines: list[str] = []
    for number, line in enumerate(split_lines(text), start=1):
        if number in inside:
            lines.append(line)
        elif not line.strip():
            lines.append(line.lstrip(" \t"))
        # Comments and continuation lines may stand further left than the code.
        else:
            lines.append(new + (line.removeprefix(old) if line.startswith(old) else line.lstrip()))
    return "".join(lines)


def _find_string_lines(text: str) -> frozenset[int]:
    # From Python 3.12 on, an f-string is several tokens.
    starts = {"FSTRING_START", "TSTRING_START"}
    ends = {"FSTRING_END", "TSTRING_END"}
    inside: set[int] = set()
    opened: list[int] = []
    for token in read_tokens(text):
        name = tokenize.tok_name[token.type]
        if name == "STRING":
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
        elif name in starts:
            opened.append(token.start[0])
        elif name in ends:
            inside.update(range(opened.pop() + 1, token.end[0] + 1))
    return frozenset(inside)


def owns_lines(fragment: Fragment, suite: Sequence[ast.stmt], start: int, stop: int) -> bool:
    """Whether nothing else stands on the lines of `suite[start:stop]`."""
    node = suite[start]
    first = first_line(node)
    last = suite[stop - 1].end_lineno or 0
    # The first line of a definition may be that of a decorator, before which nothing stands.
    if not isinstance(node, Function | ast.ClassDef):
        column = fragment.column(first, node.col_offset)
        before = fragment.lines[first - 1][:column]
        if before.strip():
            return False
    is_end = stop == len(suite)
    return is_end or first_line(suite[stop]) != last


def suite_text(code: Fragment, suite: Sequence[ast.stmt], above: int) -> tuple[str, str]:
    """The lines of `suite` with the comments among them, and their indentation.

    `above` is the line above them.
    """
    first = first_line(suite[0])
    last = suite[-1].end_lineno or 0
    # `if x: a(); b()` has no lines of its own.
    has_lines = first > above and owns_lines(code, suite, 0, 1)
    if not has_lines:
        lines = [f"{code.source(node)}\n" for node in suite]
        return "".join(lines), ""
    indent = indent_of(code.lines[first - 1])
    last = _find_last_comment(code, last, indent)
    _, start = code.line_span(1, above)
    _, end = code.line_span(1, last)
    text = code.text[start:end]
    # The last line of a file may have no end.
    if not text.endswith("\n"):
        text += "\n"
    return text, indent


def _find_last_comment(code: Fragment, last: int, indent: str) -> int:
    """The last line of a suite that ends on line `last`, with its comments below."""
    last_comment = last
    for number, line in enumerate(code.lines[last:], start=last + 1):
        is_comment = line.lstrip().startswith("#")
        # One that stands further left belongs to the code around the suite.
        if is_comment and indent_of(line).startswith(indent):
            last_comment = number
        elif line.strip():
            break
    return last_comment


def find_colon(code: Fragment, line: int, column: int) -> tuple[int, int]:
    """Line and character column behind the colon of the header that begins at `line`, `column`."""
    # A colon in brackets belongs to an annotation or a slice.
    depth = 0
    text = code.text[code.line_span(line, line)[0] + column :]
    for token in read_tokens(text):
        if token.type != tokenize.OP:
            continue
        if token.string in "([{":
            depth += 1
        elif token.string in ")]}":
            depth -= 1
        elif token.string == ":" and depth == 0:
            row, end = token.end
            # Only the first line was cut.
            if row == 1:
                end += column
            return line + row - 1, end
    raise AssertionError("a compound statement without a colon parsed")
