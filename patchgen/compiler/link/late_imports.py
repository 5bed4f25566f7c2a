"""Imports that stay where they are, below a statement that they may depend on.

    import os                               import os

    os.environ["FAST"] = "1"        ->
    import kernels                          os.environ["FAST"] = "1"

                                            import kernels

All other imports stand at the top of the flat file, in the formatter's order.  One that Python runs after a statement
that changes something outside the flat file stands after it there too, unless its package was imported before, and no
such statement names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from patchgen.compiler.link.execution import trace
from patchgen.compiler.link.flatblock import BlockId, Builder, FlatBlock
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.imports import NeededImport
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.syntax.blocks import Import


def find_late_imports(
    needed: tuple[NeededImport, ...], gathered: Gathered, builder: Builder
) -> tuple[FlatBlock, ...]:
    """Those of `needed` that have to stand below a statement of `gathered`, as blocks."""
    acting = [
        block.unit
        for block in gathered.blocks
        if block.kind not in ("class", "def", "import")
        and builder.changes.of(
            builder.index(block.unit.module), builder.source_block(block.unit)
        ).outside
    ]
    if not acting:
        return ()
    modules = {unit.module for unit in acting} | {each.unit.module for each in needed}
    pieces = {piece.symbol.module for block in gathered.blocks for piece in block.pieces}
    places = trace(modules | pieces, builder)
    first = min(places[unit] for unit in acting)
    before = {_package(item) for each in needed if places[each.unit] < first for item in each.items}
    before |= {_package(item) for item in _read_before(gathered, places, first, builder)}
    before -= _touched(acting, builder)
    late = [
        each
        for each in needed
        if places[each.unit] > first and {_package(i) for i in each.items} - before
    ]
    return tuple(_block(each, builder) for each in late)


def _read_before(
    gathered: Gathered, places: dict[BlockId, int], first: int, builder: Builder
) -> Iterator[Import]:
    """The imports above statement `first` of names that the flat file imports, in any module whose code reads them."""
    for name, home in gathered.homes:
        for block in builder.index(home).blocks:
            if block.kind == "import" and places.get(BlockId(home, block.first), first) < first:
                yield from (item for item in block.imports if item.bound == name)


def _touched(acting: Iterable[BlockId], builder: Builder) -> set[str]:
    """The packages that the statements name: `kernels.FAST = True` counts for `from kernels import FAST` below it."""
    found = set()
    for unit in acting:
        index, uses = builder.index(unit.module), builder.source_block(unit).uses
        found |= {
            _package(item) for block in index.blocks for item in block.imports if item.bound in uses
        }
    return found - {""}


def _package(item: Import) -> str:
    """What is imported first of all; a relative import names this package."""
    return "" if item.level else item.module.partition(".")[0]


def _block(needed: NeededImport, builder: Builder) -> FlatBlock:
    index = builder.index(needed.unit.module)
    leading = builder.source_block(needed.unit).leading
    names = tuple(dict.fromkeys(item.bound for item in needed.items))
    key = Symbol(needed.unit.module, names[0])
    piece = RewrittenBlock(
        key, "import", names[0], leading, needed.text, index.source, needed.unit.first, names
    )
    return FlatBlock(needed.unit, "import", names[0], leading, needed.text, (), names, (piece,))
