"""Read a generated text once for all that validate it.

In: the text of an output or of its diff base.  Out: its syntax tree, and where it reads which
global names.  A variant shares most of its blocks with its parent, so names are read block by
block: `Block.references` remembers what a block of the same text reads.
"""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass

from patchgen.syntax.blocks import index_tree
from patchgen.syntax.text import make_source
from patchgen.syntax.trees import Position


@dataclass(frozen=True, slots=True)
class GlobalRead:
    """A read of the global `name` at `position`; `quoted`: inside a string annotation."""

    name: str
    position: Position
    quoted: bool


@dataclass(frozen=True)
class Parsed:
    """A text as the validation sees it; nobody changes `tree`."""

    text: str
    tree: ast.Module

    @functools.cached_property
    def reads(self) -> tuple[GlobalRead, ...]:
        """Every read of a global name, in order.

        Found when somebody asks: nobody does for nearly all diff bases.
        """
        found = []
        for block in index_tree(make_source(self.text, ""), self.tree).blocks:
            for reference in block.references:
                # The lines of a block count from 1.
                position = (block.first + reference.line - 1, reference.column)
                found.append(GlobalRead(reference.name, position, reference.quoted))
        return tuple(found)


# One output at a time is validated, against one diff base.
@functools.lru_cache(maxsize=2)
def parse_output(text: str) -> Parsed:
    """Parse `text`.  Raises SyntaxError or ValueError for what is not Python."""
    return Parsed(text, ast.parse(text))
