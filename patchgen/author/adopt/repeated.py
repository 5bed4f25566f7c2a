"""What of a model's file a draft repeats, as it stands there, and the names that this reads."""

from __future__ import annotations

import ast
from collections.abc import Collection

from patchgen.author.align.file import File
from patchgen.syntax.blocks import first_line
from patchgen.syntax.same import Function

_COPIED = "# Copied from"


class Text:
    """Writes statements of a model's file unchanged, and notes the names that they read."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.read: set[str] = set()

    def of(self, node: ast.stmt, left_out: Collection[ast.expr] = ()) -> list[str]:
        """The lines of a statement, with the comments above it.

        Comments that say what was copied are left out; so are, in `left_out`, the decorators of a
        method and what it is annotated to return.
        """
        return self._between(node, node.end_lineno or node.lineno, left_out)

    def head_of(self, function: Function, left_out: Collection[ast.expr] = ()) -> list[str]:
        """The lines of a function above its body."""
        lines = self._between(function, first_line(function.body[0]) - 1, left_out)
        # Comments may stand between the colon and the body.
        while lines and not lines[-1].strip().endswith(":"):
            lines.pop()
        return lines

    def plain(self, node: ast.stmt) -> list[str]:
        """`of` an assignment, without its annotation."""
        if not isinstance(node, ast.AnnAssign) or node.annotation.end_lineno != node.lineno:
            return self.of(node)
        last = node.end_lineno or 0
        lines = self._written(node.lineno, last)
        place = len(lines) - 1 - last + node.lineno
        behind = lines[place].encode()[node.annotation.end_col_offset or 0 :].decode()
        lines[place] = f"{' ' * node.col_offset}{ast.unparse(node.target)}{behind}"
        self.read |= _names(node) - _names(node.annotation)
        return lines

    def _between(self, node: ast.stmt, last: int, left_out: Collection[ast.expr]) -> list[str]:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        is_bare = bool(decorators) and decorators[0] in left_out
        first = node.lineno if is_bare else first_line(node)
        lines = self._written(first, last)
        returns = node.returns if isinstance(node, Function) else None
        if returns is None or returns not in left_out or returns.lineno != returns.end_lineno:
            self.read |= self.file.names_read(first, last)
            return lines
        # On its line there may be parameters too.
        line = returns.lineno
        self.read |= self.file.names_read(first, line - 1) | self.file.names_read(line + 1, last)
        self.read |= self.file.names_read(line, line) - _names(returns)
        place = len(lines) - 1 - last + line
        text = lines[place].encode()
        before = text[: returns.col_offset].decode().rstrip().removesuffix("->").rstrip()
        lines[place] = before + text[returns.end_col_offset :].decode()
        return lines

    def _written(self, first: int, last: int) -> list[str]:
        """The lines from `first` to `last`, and the comments above them."""
        lines = self.file.source.lines
        top = first
        while top > 1 and lines[top - 2].lstrip().startswith("#"):
            top -= 1
        selected = lines[top - 1 : last]
        return [line.rstrip("\n") for line in selected if not line.lstrip().startswith(_COPIED)]


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
