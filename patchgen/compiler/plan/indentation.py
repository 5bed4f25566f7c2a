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
_BESIDE_CODE = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT})


@dataclass(frozen=True, slots=True)
class _Beginning:
    """A statement whose first word is on line `row` and whose indentation is on line `first`."""

    first: int
    row: int
    depth: int


def normalize_indentation(block: RewrittenBlock) -> RewrittenBlock:
    """`block` with only spaces before its statements; unchanged where that is so already."""
    # Nearly all blocks: no need to tokenize them.
    if not _ODD.search(block.text):
        return block
    lines = block.text.split("\n")
    tokens = tuple(tokenize.generate_tokens(io.StringIO(block.text).readline))
    beginnings = tuple(_beginnings(tokens))
    if all(b.first == b.row and set(_white_space(lines[b.row - 1])) <= {" "} for b in beginnings):
        return block
    # A comment is indented as the statements that begin with the same characters.
    depths = {b.row: b.depth for b in beginnings}
    levels = {_white_space(lines[b.first - 1]): b.depth for b in beginnings}
    comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    # Lines of backslashes alone.
    behind = {row for b in beginnings for row in range(b.first, b.row)}
    done: list[str] = []
    edits = list(block.edits)
    for row, line in enumerate(lines, start=1):
        old = _white_space(line)
        depth = depths.get(row, levels.get(old) if row in comments else None)
        new = old if depth is None else INDENT * depth
        # Recorded, so that positions can be translated back to the file.
        if new != old:
            edits.append(Edit(row, 0, old, new))
        done.append("" if row in behind else new + line[len(old) :])
    edits.sort(key=lambda edit: (edit.line, edit.column))
    return replace(block, text="\n".join(done), edits=tuple(edits))


def _beginnings(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[_Beginning]:
    depth, first, begun = 0, 1, False
    for token in tokens:
        # The tokenizer has resolved tabs and form feeds to levels.
        depth += (token.type == tokenize.INDENT) - (token.type == tokenize.DEDENT)
        if token.type == tokenize.NEWLINE or (token.type == tokenize.NL and not begun):
            first, begun = token.start[0] + 1, False
        elif token.type == tokenize.ENDMARKER:
            return
        elif not begun and token.type not in _BESIDE_CODE:
            yield _Beginning(first, token.start[0], depth)
            begun = True


def _white_space(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t\f"))]
