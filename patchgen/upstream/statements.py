"""Split a block into statements, each with the comment and blank lines above it.

In: the lines of a text and the nodes of one block of its tree.  Out: statements as whole lines,
which can be moved, replaced and joined without columns.  Nothing here knows what a statement means.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_COMMENT = re.compile("#.*")
_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement `node` as whole lines; `leading` holds the blank and comment lines above it.

    `text` includes the comment at the end of its last line and the comments that close its own
    blocks.  `alone` is False when several statements share its lines (`a = 1; b = 2`); `node` is
    then the first of them.
    """

    leading: str
    text: str
    node: ast.stmt
    alone: bool

    @property
    def whole(self) -> str:
        """The statement with the lines above it."""
        return self.leading + self.text

    @property
    def plain(self) -> str:
        """The text up to a `#`, by which repeated statements are found; a `#` in a string
        counts.
        """
        text = _COMMENT.sub("", self.text) if "#" in self.text else self.text
        return _TRAILING.sub("", text).strip()


def first_line(node: ast.stmt) -> int:
    """The line on which `node` begins, its decorators included."""
    # `lineno` is the line of `def` or `class`.
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return decorators[0].lineno if decorators else node.lineno


def slice_of(lines: Sequence[str], node: ast.expr) -> str:
    """The source of `node`; `ast` counts columns in bytes."""
    first, last = lines[node.lineno - 1], lines[(node.end_lineno or node.lineno) - 1]
    start, end = column(first, node.col_offset), column(last, node.end_col_offset or 0)
    if node.lineno == node.end_lineno:
        return first[start:end]
    return first[start:] + "".join(lines[node.lineno : (node.end_lineno or 0) - 1]) + last[:end]


def column(line: str, bytes_before: int) -> int:
    """The column in characters for a column in bytes."""
    return bytes_before if line.isascii() else len(line.encode()[:bytes_before].decode())


def is_docstring(statement: Statement) -> bool:
    """Whether it is a plain string in triple double quotes, wherever it stands."""
    node = statement.node
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and statement.text.count('"""') > 1
    )


def statements(
    lines: Sequence[str], body: Sequence[ast.stmt], start: int, end: int
) -> tuple[tuple[Statement, ...], str]:
    """The statements of `body`, in `lines[start:end]`, and the comment lines below the last."""
    found: list[Statement] = []
    above = start
    for first, last, node, alone in _groups(body):
        before = "".join(lines[above:first])
        # Nearly always there are only blank lines, which need not be split.
        if found and before and not before.isspace():
            footer, before = _split_gap(lines[above:first], node.col_offset)
            found[-1] = replace(found[-1], text=found[-1].text + footer)
        found.append(Statement(before, "".join(lines[first:last]), node, alone))
        above = last
    # Comments at the end may belong to the last statement, or to what follows the block.
    footer, rest = _split_gap(lines[above:end], body[-1].col_offset)
    found[-1] = replace(found[-1], text=found[-1].text + footer)
    return tuple(found), rest


def _groups(body: Sequence[ast.stmt]) -> Iterator[tuple[int, int, ast.stmt, bool]]:
    """For each group: its first line from 0, the line after it, its first node, and if that is
    alone.
    """
    index = 0
    while index < len(body):
        node = body[index]
        last = node.end_lineno or node.lineno
        index += 1
        alone = True
        # `a = 1; b = 2`: one group, which is moved as a whole.
        while index < len(body) and body[index].lineno == last:
            last = body[index].end_lineno or last
            index += 1
            alone = False
        yield first_line(node) - 1, last, node, alone


def _split_gap(lines: Sequence[str], indent: int) -> tuple[str, str]:
    """Split lines between statements: those deeper than `indent` close the block above."""
    cut = 0
    for number, line in enumerate(lines, 1):
        bare = line.lstrip()
        # A blank line goes with the comment below it.
        if not bare:
            continue
        if len(line) - len(bare) <= indent:
            break
        cut = number
    return "".join(lines[:cut]), "".join(lines[cut:])
