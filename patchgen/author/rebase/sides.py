"""The text of one version of a method, asked for by nodes of its tree."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.syntax.blocks import first_line
from patchgen.syntax.text import Source

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.Dict)


@dataclass(frozen=True)
class Clash:
    """A place that both sides changed, or where it is in doubt what the change means now.

    The texts are those of the old parent, of the declaration and of the new parent.
    """

    what: str
    base: str = ""
    ours: str = ""
    theirs: str = ""


@dataclass(frozen=True)
class Side:
    """The file that a version of a method stands in."""

    source: Source

    def code(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> str:
        """The text of `node` as it stands in the file."""
        return self._between(
            (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
        )

    def spliced(self, node: ast.expr | ast.stmt, pieces: Sequence[tuple[ast.expr, str]]) -> str:
        """The text of `node` with other texts in the places of some expressions in it."""
        place = node.lineno, node.col_offset
        text = ""
        for inner, new in sorted(pieces, key=lambda one: (one[0].lineno, one[0].col_offset)):
            text += self._between(place, (inner.lineno, inner.col_offset)) + new
            place = inner.end_lineno or 0, inner.end_col_offset or 0
        return text + self._between(place, (node.end_lineno or 0, node.end_col_offset or 0))

    def comments(self, node: ast.stmt) -> list[str]:
        """The lines of comments right above a statement."""
        first = top = first_line(node)
        while top > 1 and self._line(top - 1).lstrip().startswith("#"):
            top -= 1
        return [self._line(n) for n in range(top, first)]

    def lines(self, first: int, last: int) -> list[str]:
        """Lines `first` to `last`, both included, without their ends."""
        return [self._line(n) for n in range(first, last + 1)]

    def _line(self, number: int) -> str:
        return self.source.lines[number - 1].rstrip("\n")

    def _between(self, start: tuple[int, int], stop: tuple[int, int]) -> str:
        """The text from one place to another; columns count bytes, as those of `ast` do."""
        lines = [line.encode() for line in self.lines(start[0], stop[0])]
        lines[-1] = lines[-1][: stop[1]]
        lines[0] = lines[0][start[1] :]
        return b"\n".join(lines).decode()


@dataclass(frozen=True)
class Three:
    """The old parent, the declaration on the old parent, and the new parent.

    `rest` is what the new parent's method calls the keyword arguments that it does not name.
    """

    base: Side
    ours: Side
    theirs: Side
    rest: str = ""

    def clash(self, what: str, *nodes: ast.expr | ast.stmt | None) -> Clash:
        """A clash that shows a node of each side, or none."""
        sides = (self.base, self.ours, self.theirs)
        texts = [side.code(node) if node else "" for side, node in zip(sides, nodes, strict=False)]
        return Clash(what, *texts)


def as_operand(node: ast.expr, text: str) -> str:
    """`text`, the code of `node`, as it can stand anywhere in an expression."""
    return text if isinstance(node, _ATOMS) else f"({text})"
