"""Find which blocks have to stand before which others.

    toy.py     LIMIT = 3                 LIMIT = 3  before  class Base
               class Base:               class Base  before  LIMIT = 5
                   low = LIMIT
               LIMIT = 5

In: the blocks of an output.  Out: for each block those before it.  Of two statements of which one
changes a name that the other reads or changes, the first is the one that Python would run first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from patchgen.compiler.link.execution import trace_execution
from patchgen.compiler.link.flatblock import BlockId, Builder, FlatBlock
from patchgen.compiler.plan.model import RewrittenBlock, Symbol

# For each block those that have to come before it, with the name on which that depends.
Before = dict[BlockId, dict[BlockId, str]]
# The place of each statement in the order of execution.
Places = dict[BlockId, int]

# Statements that change or read something outside the file all change or read this one name.
_OUTSIDE = ""


@dataclass
class _Uses:
    """The blocks that change a name and those that read it, with their places in execution."""

    changes: list[tuple[int, BlockId]] = field(default_factory=list)
    reads: list[tuple[int, BlockId]] = field(default_factory=list)

    def pairs(self) -> Iterator[tuple[BlockId, BlockId]]:
        """Each two blocks whose order matters, the first one first."""
        # Two reads may change places.
        for place, block_id in self.changes:
            for other_place, other in (*self.changes, *self.reads):
                if other == block_id or place == other_place:
                    continue
                if place < other_place:
                    yield block_id, other
                else:
                    yield other, block_id


def find_constraints(blocks: tuple[FlatBlock, ...], builder: Builder) -> Before:
    """For each block those that have to come before it."""
    modules = {rewritten.symbol.module for block in blocks for rewritten in block.rewritten}
    places = trace_execution(modules, builder)
    recorder = _UseRecorder(places, builder)
    for block in blocks:
        for rewritten in block.rewritten:
            recorder.record(block, rewritten)
    before: Before = {}
    for name, uses in recorder.uses.items():
        for first, second in uses.pairs():
            before.setdefault(second, {}).setdefault(first, name)
    _put_imports_first(blocks, before)
    return before


def _put_imports_first(blocks: tuple[FlatBlock, ...], before: Before) -> None:
    """Let an import among the blocks stand before the code that reads its name when it runs."""
    imported = _find_only_imported(blocks)
    for block in blocks:
        for dependency in block.dependencies:
            name = dependency.name
            if dependency.eager and name in imported:
                needed = before.setdefault(block.block_id, {})
                needed.setdefault(imported[name], name)


def _find_only_imported(blocks: tuple[FlatBlock, ...]) -> dict[str, BlockId]:
    """The names that one import among `blocks` binds, and nothing else."""
    binders: dict[str, list[FlatBlock]] = {}
    for block in blocks:
        for name in block.defines:
            binders.setdefault(name, []).append(block)
    found: dict[str, BlockId] = {}
    for name, binding in binders.items():
        # A name that something else binds too is ordered by execution alone.
        if len(binding) == 1 and binding[0].kind == "import":
            found[name] = binding[0].block_id
    return found


class _UseRecorder:
    """Records what blocks read and change, by the names of the flat file."""

    def __init__(self, places: Places, builder: Builder) -> None:
        self._places, self._builder = places, builder
        self.uses: dict[str, _Uses] = {}

    def record(self, block: FlatBlock, rewritten: RewrittenBlock) -> None:
        """Record what `rewritten` of `block` reads and changes."""
        builder = self._builder
        home = rewritten.symbol.module
        block_id = BlockId(home, rewritten.first)
        place = self._places[block_id]
        if block.aside:
            self._get(block.name).changes.append((place, block.block_id))
        change = builder.changes.of(builder.index(home), builder.source_block(block_id))
        for symbol in change.symbols | change.reads:
            self._record_symbol(block, block_id, symbol, is_changed=symbol in change.symbols)
        # An import acts on everything outside: nothing is known of what the module does.
        acts_outside = change.outside or block.kind == "import"
        if acts_outside and rewritten is block.rewritten[0]:
            self._get(_OUTSIDE).changes.append((place, block.block_id))
        elif change.reads_outside:
            self._get(_OUTSIDE).reads.append((place, block.block_id))

    def _record_symbol(
        self, block: FlatBlock, block_id: BlockId, symbol: Symbol, is_changed: bool
    ) -> None:
        """Record that the statement `block_id`, a part of `block`, reads or changes `symbol`."""
        home = block_id.module
        found = self._builder.naming.resolve(symbol, home)
        if found.key is None:
            return
        is_own = (
            symbol.module == home and symbol.name in self._builder.source_block(block_id).defines
        )
        if is_own != (found.name in block.defines):
            return  # a class of the chain, which is merged or stands in the file by itself
        place = self._places[block_id]
        if is_own:
            # What takes the place of a parent's statement may have to stand where that did.
            replaced = self._find_replaced_places(found.name, found.key)
            place = min([place, *replaced, *self._find_merged_places(block)])
        uses = self._get(self._name_in(block, symbol, found.name))
        entries = uses.changes if is_changed else uses.reads
        entries.append((place, block.block_id))

    def _get(self, name: str) -> _Uses:
        return self.uses.setdefault(name, _Uses())

    def _name_in(self, block: FlatBlock, symbol: Symbol, name: str) -> str:
        """What `block` calls `symbol`.

        A statement below a parent may mean the parent that is put aside, and not `name`.
        """
        aside = self._builder.naming.aside(symbol)
        if aside is None:
            return name
        read = {dependency.name for dependency in block.dependencies}
        return aside if aside in read else name

    def _find_merged_places(self, block: FlatBlock) -> Iterator[int]:
        """The places of the parents that were merged into `block` and had its name."""
        for rewritten in block.rewritten[1:]:
            home = rewritten.symbol.module
            if self._builder.naming.resolve(rewritten.symbol, home).name == block.name:
                yield self._places[BlockId(home, rewritten.first)]

    def _find_replaced_places(self, name: str, key: Symbol) -> Iterator[int]:
        """The places of the parents' statements whose `name` a modular file declares as `key`."""
        naming = self._builder.naming
        # What a parent defines replaces nothing.
        if key.module not in self._builder.layers:
            return
        for parent in naming.plan.parents:
            if naming.resolve(Symbol(parent, name), parent).key != key:
                continue
            for block in self._builder.index(parent).blocks:
                if block.kind == "import" or name not in block.defines:
                    continue
                block_id = BlockId(parent, block.first)
                if block_id in self._places:
                    yield self._places[block_id]
