"""The values that planning produces and that rewriting and linking consume.

All are frozen.  A *symbol* is a name in a module; a *rewritten block* is a block whose global names
have been replaced by those of the flat file.

    llama.LlamaMLP in a modular file    the symbol LlamaMLP of transformers...modeling_llama
    class LlamaMLP(nn.Module): ...      its block
    class TinyMLP(nn.Module): ...       the rewritten block, where the flat file says TinyMLP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from patchgen.syntax.errors import Location
from patchgen.syntax.text import Source


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """The definition `name` of `module`; an empty `name` is the module itself."""

    module: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module

    def is_same(self, other: Symbol) -> bool:
        """Whether both name one thing, as `from torch import nn` and `import torch.nn as nn` do."""
        return str(self) == str(other)


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement on a line: `old` at `column` (in characters from 0) became `new`."""

    line: int
    column: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RewrittenBlock:
    """A block in the names of the flat file.

    `text` has as many lines as the block had.  `dependencies` says what every global name in `text`
    stands for.  `first` is the line of the file at `source` on which `text` begins.
    """

    symbol: Symbol
    kind: str
    name: str
    leading: str
    text: str
    source: Source
    first: int
    defines: tuple[str, ...] = ()
    dependencies: Mapping[str, Symbol] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()

    def at(self, line: int, column: int) -> Location:
        """The place in the source of column `column` (from 0), line `line` (from 1) of `text`."""
        # Edits further left on the line have moved the column.
        shift = 0
        for edit in self.edits:
            if edit.line == line and edit.column + shift < column:
                shift += len(edit.new) - len(edit.old)
        return Location(self.source.path, self.first + line - 1, max(column - shift, 0) + 1)


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """One flat class.

    `chain` are the classes merged into it, in the order of Python's MRO, the declaration first.
    `bases` are the base expressions of the flat class, in flat names: what follows the chain.
    `own_names[i]` is the class name of `chain[i]` in its own module, which decides how Python
    mangles `__private` names.
    `searches[i]` says where Python looks for what `chain[i]` has: in which classes of the chain,
    itself first, and then in which base; None where it is none that the flat class names.
    `beyond(module, name)` is all that `super()` in code of `module` can find behind the chain, if
    `name` is surely not among it, else None.
    """

    name: str
    chain: tuple[RewrittenBlock, ...]
    bases: tuple[str, ...]
    own_names: tuple[str, ...]
    searches: tuple[tuple[tuple[int, ...], str | None], ...]
    beyond: Callable[[str, str], frozenset[str] | None] = field(
        default=lambda module, name: None, repr=False, compare=False
    )


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines `first` to `last` of the file that is shown as `path`."""

    path: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class EditMatch:
    """What one edit matched.

    `method` is the method as "Class.method" of the parent, `declared` are the lines of the edit,
    `new` those under its `with new:`, and `found` the lines of the parent that it replaces.  Where
    another edit has changed the method before, the lines are not `known`: `found` is the first
    line of the method.
    """

    name: str
    method: str
    declared: Lines
    new: Lines
    found: tuple[Lines, ...]
    known: bool = True


@dataclass(frozen=True, slots=True)
class MergedClass:
    """The text of a flat class, and what a reader should know of how it came about."""

    name: str
    text: str
    notes: tuple[str, ...] = ()
    edits: tuple[EditMatch, ...] = ()
