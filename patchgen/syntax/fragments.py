"""Statements of a class body as text, with their trees and lines.

def f(self):        # a method is read alone, at the indentation that it has in its class
    return 1        # line 2 of the text, as of its tree
"""

from __future__ import annotations

import ast
import functools
import warnings
from dataclasses import dataclass, field

from patchgen.syntax.trees import Positioned, column_of, slice_of, walk


@dataclass(frozen=True, slots=True)
class Fragment:
    """Statements of a class body: whole lines, as they stand in the class, and their trees."""

    text: str
    nodes: tuple[ast.stmt, ...] = field(compare=False)
    lines: tuple[str, ...] = field(compare=False, repr=False)

    def offset(self, line: int, byte_column: int) -> int:
        """The character offset in the text of a position as `ast` gives it."""
        before = sum(map(len, self.lines[: line - 1]))
        return before + self.column(line, byte_column)

    def column(self, line: int, byte_column: int) -> int:
        """The character column, from 0, of a byte column."""
        return column_of(self.lines[line - 1], byte_column)

    def span(self, node: Positioned) -> tuple[int, int]:
        """Where the text of `node` begins and ends; parentheses around it are not part of it."""
        # `ast` gives byte columns, and the text has characters.
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self.offset(node.lineno, node.col_offset), end

    def source(self, node: Positioned) -> str:
        """The text of `node`."""
        return slice_of(self.lines, node)

    def line_span(self, first: int, last: int) -> tuple[int, int]:
        """Where the whole lines `first` to `last` begin and end."""
        start = sum(map(len, self.lines[: first - 1]))
        return start, start + sum(map(len, self.lines[first - 1 : last]))


@functools.lru_cache(maxsize=4096)
def parse_fragment(text: str) -> Fragment:
    """The statements of `text`, which is indented as in a class body."""
    tree = ast.parse(f"class _:\n{text}")
    holder = tree.body[0]
    assert isinstance(holder, ast.ClassDef)
    # Lines count from the text, not from the class line above it.
    for node in holder.body:
        for inner in walk(node):
            # As `ast.increment_lineno`, which walks twice as long.
            if "lineno" in inner._attributes:
                inner.lineno -= 1  # type: ignore[attr-defined]
                inner.end_lineno -= 1  # type: ignore[attr-defined]
    return Fragment(text, tuple(holder.body), split_lines(text))


def find_syntax_error(text: str) -> str | None:
    """Python's error for `text` in a class body, such as `break` outside a loop, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(f"class _:\n{text}", "<edited>", "exec", dont_inherit=True)
        except SyntaxError as error:
            return error.msg
    return None


@functools.lru_cache(maxsize=8)
def split_lines(text: str) -> tuple[str, ...]:
    """The lines of `text` with their ends; only `\\n` ends a line, as for Python's tokenizer."""
    *whole, rest = text.split("\n")
    # Behind the last line end there is nothing, or a line without one.
    return (*(f"{line}\n" for line in whole), *([rest] if rest else ()))
