"""Order the blocks of a flat file by one rule.

A block stands above the first block that reads it at import, and statements of one module keep
their order.  Where that leaves a choice, the followed parent's order or the modular file's stays:

    class TinyPreTrainedModel(...):                 class TinyAttention(nn.Module): ...
        _can_record_outputs = {
            "attentions": TinyAttention     ->      class TinyPreTrainedModel(...):
        }                                               _can_record_outputs = {
    class TinyAttention(...): ...                           "attentions": TinyAttention ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from patchgen.compiler.link.collisions import choose_reported_block
from patchgen.compiler.link.flatblock import BlockId, Builder, FlatBlock
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import references_in
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.statements import is_plain

# For each block those that have to stand above it.
Above = dict[BlockId, set[BlockId]]
# For each name the blocks that bind it, or that change what it stands for.
Places = dict[str, list[BlockId]]


def order_blocks(gathered: Gathered, builder: Builder) -> tuple[FlatBlock, ...]:
    """The blocks, each below what it reads at import; raises PG403 for two that need each other."""
    in_order = sorted(gathered.blocks, key=lambda block: builder.position(block.block_id))
    blocks = {block.block_id: block for block in in_order}
    binders: Places = {}
    changers: Places = {}
    for block_id, block in blocks.items():
        for name in block.defines:
            binders.setdefault(name, []).append(block_id)
        for name in block.changes:
            changers.setdefault(name, []).append(block_id)
    preferred = _find_preferred_order(gathered, builder, blocks)
    above = _find_above(blocks, binders, changers, builder)
    placing = _Placing(blocks, preferred, above, binders, changers)
    for block_id in (*preferred, *blocks):
        placing.place(block_id, ())
    return tuple(placing.placed.values())


def _find_above(
    blocks: Mapping[BlockId, FlatBlock], binders: Places, changers: Places, builder: Builder
) -> Above:
    above: Above = {block_id: set() for block_id in blocks}
    last: dict[str, BlockId] = {}
    for block_id, block in blocks.items():
        # Statements of one module keep their order.
        is_statement = block.kind in ("assign", "guard", "other")
        again = _find_rebound(block_id, block, binders)
        if again or (is_statement and not is_plain(builder.source_block(block_id))):
            if block_id.module in last:
                above[block_id].add(last[block_id.module])
            last[block_id.module] = block_id
        read = {dependency.name for dependency in block.dependencies if dependency.eager}
        # What binds a name again comes below what binds it first, and below what reads that.
        above[block_id].update(other for other in again if not _stands_below(other, block_id))
        for name in read | block.changes:
            for reader in _find_readers(name, block_id, block):
                # `NAMES += [...]` below a reader of its module is read by none above it.
                places = binders.get(name, ())
                is_bound = any(not _stands_below(binder, reader) for binder in places)
                for binder in places:
                    is_below = is_bound and _stands_below(binder, reader)
                    upper, lower = (block_id, binder) if is_below else (binder, block_id)
                    above[lower].add(upper)
                # A change comes before what reads it in Python, and after what was read before.
                if name in binders:
                    for changer in changers.get(name, ()):
                        is_below = builder.position(changer) > builder.position(reader)
                        upper, lower = (block_id, changer) if is_below else (changer, block_id)
                        above[lower].add(upper)
    for block_id, upper_blocks in above.items():
        upper_blocks.discard(block_id)
    return above


def _find_readers(name: str, block_id: BlockId, block: FlatBlock) -> list[BlockId]:
    """The statements of which a block was made that read `name` at import: a class, its parents."""
    readers = []
    for rewritten in block.rewritten:
        if any(read.eager and read.name == name for read in references_in(rewritten.text)):
            readers.append(BlockId(rewritten.symbol.module, rewritten.first))
    return readers or [block_id]


def _find_rebound(block_id: BlockId, block: FlatBlock, binders: Places) -> list[BlockId]:
    """The other statements of its module that bind what a block binds."""
    others = []
    for name in block.defines:
        for other in binders[name]:
            if other.module == block_id.module and other != block_id:
                others.append(other)
    return others


def _stands_below(lower: BlockId, upper: BlockId) -> bool:
    return lower.module == upper.module and lower.first > upper.first


def _find_preferred_order(
    gathered: Gathered, builder: Builder, blocks: Mapping[BlockId, FlatBlock]
) -> tuple[BlockId, ...]:
    """The order of the followed module, or of the modular file's own classes."""
    if gathered.base is None:
        # Functions and constants stand with the class that uses them first.
        own = (block_id for block_id in blocks if block_id.module in builder.layers)
        return tuple(block_id for block_id in own if blocks[block_id].kind == "class")
    preferred: dict[BlockId, None] = {}
    for block in builder.index(gathered.base).blocks:
        # A block of the modular file stands where the one that it replaces stood.
        for name in block.defines:
            key = builder.naming.resolve(Symbol(gathered.base, name), gathered.base).key
            if key is not None and key.module != gathered.base:
                preferred.update(dict.fromkeys(builder.block_ids(key)))
        preferred.setdefault(BlockId(gathered.base, block.first))
    return tuple(block_id for block_id in preferred if block_id in blocks)


class _Placing:
    """Places blocks one after the other, each below what has to stand above it."""

    def __init__(
        self,
        blocks: Mapping[BlockId, FlatBlock],
        preferred: Iterable[BlockId],
        above: Above,
        binders: Places,
        changers: Places,
    ) -> None:
        self._blocks = blocks
        self._above = above
        self._binders = binders
        self._changers = changers
        self._preferred = frozenset(preferred)
        self.placed: dict[BlockId, FlatBlock] = {}

    def place(self, block_id: BlockId, waiting: tuple[BlockId, ...]) -> None:
        """Place `block_id`, for which the blocks in `waiting` wait, below what it needs."""
        if block_id in self.placed:
            return
        inner = (*waiting, block_id)
        below: list[BlockId] = []
        for needed in self._find_needed(block_id):
            if needed in self.placed or needed == block_id:
                continue
            if needed in self._above[block_id]:
                if needed in inner:
                    self._refuse_circle(needed, block_id)
                self.place(needed, inner)
            elif _stands_below(needed, block_id):
                below.append(needed)
            # What is only read when a function runs need not stand above, but reads better so.
            elif self._may_move(needed, inner):
                self.place(needed, inner)
        # Placing what it needs may have placed it too.
        self.placed.setdefault(block_id, self._blocks[block_id])
        # What changes it follows, as `@operator.register_fake` does behind `operator`.
        for name in self._blocks[block_id].defines:
            below += (*self._binders[name], *self._changers.get(name, ()))
        for needed in below:
            if needed not in self.placed and self._may_move(needed, waiting):
                self.place(needed, waiting)

    def _find_needed(self, block_id: BlockId) -> list[BlockId]:
        """What `block_id` needs, and what that needs in turn, in the order of the files."""
        needed: set[BlockId] = set()
        queue = [block_id]
        for reader in queue:
            read = set(self._above[reader])
            for dependency in self._blocks[reader].dependencies:
                read.update(self._binders.get(dependency.name, ()))
            for other in read - needed - self.placed.keys():
                needed.add(other)
                # What has a place of its own brings what it needs there.
                if other not in self._preferred:
                    queue.append(other)
        return sorted(needed, key=lambda needed: (needed.module, needed.first))

    def _may_move(self, block_id: BlockId, waiting: tuple[BlockId, ...]) -> bool:
        """Whether `block_id` can be placed now, without a preferred block out of its order."""
        queue = [block_id]
        for needed in queue:
            if needed in waiting or needed in self._preferred:
                return False
            queue += self._above[needed] - self.placed.keys() - set(queue)
        return True

    def _refuse_circle(self, needed: BlockId, block_id: BlockId) -> None:
        pair = [self._blocks[block_id], self._blocks[needed]]
        reported = choose_reported_block(pair)
        (other,) = (block for block in pair if block is not reported)
        there = other.place
        names = " and ".join(block.name or "a statement" for block in reversed(pair))
        what = f"{names} need each other when the module is imported (the other: {there})"
        hint = "move what is evaluated at import (a base, a decorator, a default) into a function"
        at = reported.place
        raise PatchgenError("PG403", at, what, hint)
