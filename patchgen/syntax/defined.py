"""Find the name in a `def` or `class` statement.

    async def \\
        forward(self): ...      the name is on the second line

`ast` tells where a statement begins and what its name means, but not where the name stands, nor how
it is spelled: Python reads `ﬁeld` as `field`.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_KEYWORDS = frozenset({"async", "def", "class"})


@dataclass(frozen=True, slots=True)
class DefinedName:
    """The name as spelled: characters `start` to `end`, from 0, of line `line`, from 1."""

    line: int
    start: int
    end: int


def defined_name(lines: Sequence[str], node: Definition) -> DefinedName:
    """Where the name of `node` stands in `lines`, from which its positions count."""
    first = lines[node.lineno - 1]
    # `ast` counts bytes, `tokenize` characters.
    column = len(first.encode()[: node.col_offset].decode())
    # The tokenizer would see the indentation as a block of its own, and wants ended lines.
    cut = [first[column:], *lines[node.lineno :]]
    text = "".join(line if line.endswith("\n") else f"{line}\n" for line in cut)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.NAME or token.string in _KEYWORDS:
            continue
        # Only the first line was cut.
        shift = column if token.start[0] == 1 else 0
        line = node.lineno + token.start[0] - 1
        return DefinedName(line, token.start[1] + shift, token.end[1] + shift)
    raise AssertionError("a definition without a name parsed")
