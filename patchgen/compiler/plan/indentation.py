"""Indent blocks that have tabs or form feeds by four spaces a level instead.

    class Toy:                          class Toy:
    <FF><TAB>def size(self):                def size(self):
    <TAB>    return 1                           return 1

Python counts columns: a tab goes to the next multiple of eight, a form feed back to the first
column, and a statement behind a backslash is indented by the line of the backslash.  So lines of
the same indentation may begin with different characters, and could not be moved as text.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.plan.model import Edit, RewrittenBlock

INDENT = "    "
_ODD = re.compile(r"^ *(?:[\t\f]|\\$)", re.MULTILINE)
_ODD_CHARACTERS = "\t\f\\"  # one of them is in each match
_BESIDE_CODE = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT})


@dataclass(frozen=True, slots=True)
class _Beginning:
    """A statement whose first word is on line `row` and whose indentation is on line `first`."""

    first: int
    row: int
    depth: int


def normalize_indentation(block: RewrittenBlock) -> RewrittenBlock:
    """`block` with only spaces before its statements; unchanged where that is so already."""
    # Nearly all blocks: no need to tokenize them, nor to look at each line.
    has_odd = any(character in block.text for character in _ODD_CHARACTERS)
    if not has_odd or not _ODD.search(block.text):
        return block
    lines = block.text.split("\n")
    tokens = tuple(tokenize.generate_tokens(io.StringIO(block.text).readline))
    beginnings = tuple(_find_beginnings(tokens))
    if all(_is_regular(beginning, lines) for beginning in beginnings):
        return block
    depths = _find_depths(tokens, beginnings, lines)
    # Lines of backslashes alone: with their indentation gone, nothing is left on them.
    emptied: set[int] = set()
    for beginning in beginnings:
        emptied.update(range(beginning.first, beginning.row))
    done: list[str] = []
    edits = list(block.edits)
    for row, line in enumerate(lines, start=1):
        old = _white_space(line)
        new = old
        if row in depths:
            new = INDENT * depths[row]
        # Recorded, so that positions can be translated back to the file.
        if new != old:
            edits.append(Edit(row, 0, old, new))
        done.append("" if row in emptied else new + line.removeprefix(old))
    edits.sort(key=lambda edit: (edit.line, edit.column))
    return replace(block, text="\n".join(done), edits=tuple(edits))


def _is_regular(beginning: _Beginning, lines: Sequence[str]) -> bool:
    """Whether a statement has only spaces before it, on its own line."""
    if beginning.first != beginning.row:
        return False
    return set(_white_space(lines[beginning.row - 1])) <= {" "}


def _find_depths(
    tokens: Sequence[tokenize.TokenInfo], beginnings: Sequence[_Beginning], lines: Sequence[str]
) -> dict[int, int]:
    """How deep each line is that begins a statement or is a comment; other lines stay."""
    found: dict[int, int] = {}
    # A comment is indented as the statements that begin with the same characters.
    levels = {_white_space(lines[begun.first - 1]): begun.depth for begun in beginnings}
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    for token in comments:
        row = token.start[0]
        old = _white_space(lines[row - 1])
        if old in levels:
            found[row] = levels[old]
    # Last, as a comment behind a statement does not decide about its line.
    for begun in beginnings:
        found[begun.row] = begun.depth
    return found


def _find_beginnings(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[_Beginning]:
    """Where each statement begins, and how deep it is nested."""
    depth, first, has_begun = 0, 1, False
    for token in tokens:
        # An NL inside a statement, as in brackets, does not end it.
        is_empty_line = token.type == tokenize.NL and not has_begun
        # The tokenizer has resolved tabs and form feeds to levels.
        if token.type == tokenize.INDENT:
            depth += 1
        elif token.type == tokenize.DEDENT:
            depth -= 1
        elif token.type == tokenize.ENDMARKER:
            return
        elif token.type == tokenize.NEWLINE or is_empty_line:
            first, has_begun = token.start[0] + 1, False
        elif not has_begun and token.type not in _BESIDE_CODE:
            yield _Beginning(first, token.start[0], depth)
            has_begun = True


def _white_space(line: str) -> str:
    """What a line begins with, form feeds included."""
    return line[: len(line) - len(line.lstrip(" \t\f"))]
