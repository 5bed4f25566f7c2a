"""The three versions of a method with their texts, and the same with other texts in places."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from patchgen.author.rebase.sides import Side, Three
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import Function
from patchgen.syntax.text import make_source

_CLASS = "class _:\n"


@dataclass(frozen=True, order=True)
class Cut:
    """The text from one place (line and column in bytes) to another becomes `text`."""

    start: tuple[int, int]
    stop: tuple[int, int]
    text: str


@dataclass(frozen=True)
class MethodText:
    """One version of a method, and the text that it stands in."""

    side: Side
    function: Function

    def changed(self, cuts: Iterable[Cut]) -> MethodText:
        """The method with other texts in places that do not overlap."""
        lines = [line.encode() for line in self.side.source.lines]
        for cut in sorted(set(cuts), reverse=True):
            (first, left), (last, right) = cut.start, cut.stop
            text = lines[first - 1][:left] + cut.text.encode() + lines[last - 1][right:]
            lines[first - 1 : last] = text.splitlines(keepends=True)
        return _read(b"".join(lines).decode())

    def without(self, node: ast.stmt) -> Cut:
        """The cut that takes out a statement with the comments above it."""
        first = first_line(node) - len(self.side.comments(node))
        last = node.end_lineno or 0
        return Cut((first, 0), (last, len(self.side.source.lines[last - 1].encode())), "")


@dataclass(frozen=True)
class Versions:
    """The old parent's method, the declaration's and the new parent's."""

    base: MethodText
    ours: MethodText
    theirs: MethodText

    @property
    def functions(self) -> tuple[Function, Function, Function]:
        """The three methods."""
        return self.base.function, self.ours.function, self.theirs.function

    @property
    def three(self) -> Three:
        """Their texts.  What upstream passes on of its arguments is known by its name."""
        rest = self.theirs.function.args.kwarg
        sides = self.base.side, self.ours.side, self.theirs.side
        return Three(*sides, rest.arg if rest is not None else "")


def replacing(node: ast.expr, text: str) -> Cut:
    """The cut that puts `text` in the place of an expression."""
    end = node.end_lineno or 0, node.end_col_offset or 0
    return Cut((node.lineno, node.col_offset), end, text)


def alone(side: Side, function: Function) -> MethodText:
    """A method as the only one of its text, so that changing it is quick."""
    lines = side.source.lines[first_line(function) - 1 : function.end_lineno]
    return _read((_CLASS if function.col_offset else "") + "".join(lines))


def _read(text: str) -> MethodText:
    tree = ast.parse(text)
    (node,) = tree.body
    function = node.body[0] if isinstance(node, ast.ClassDef) else node
    assert isinstance(function, Function)
    return MethodText(Side(make_source(text, "method.py")), function)
