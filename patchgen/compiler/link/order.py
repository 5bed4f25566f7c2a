"""Order the blocks of a flat file.

A file that follows a parent keeps the parent's order, with changed blocks in place.  Every other
block stands just before its first user.  A file that follows none begins with the modular file's
order.

That order reads best, and it holds as long as it cannot change what the module does.  Where one
statement changes what another reads or changes, they stand in the order in which Python would run
them (`execution`):

    LIMIT = 3                     LIMIT = 3
    class Base:                   class Base:          the modular file's class, which reads LIMIT
        low = LIMIT        ->         low = LIMIT      where the parent's did
    LIMIT = 5                     LIMIT = 5

A merged class stands for its parent's statement and for the modular file's.  Where no place is
right for both, it stays a subclass, and each statement stands in its own place.  A class that has
to be merged is refused with the file.
"""

from __future__ import annotations

from patchgen.compiler.link.collisions import choose_reported_block
from patchgen.compiler.link.constraints import Before, find_constraints
from patchgen.compiler.link.flatblock import BlockId, Builder, FlatBlock
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import Block
from patchgen.syntax.errors import Location, PatchgenError


class OrderError(PatchgenError):
    """Statements that have to come before each other.

    `merged` are the classes among them that were merged.
    """

    def __init__(self, at: Location, names: str, merged: tuple[Symbol, ...]) -> None:
        hint = "move what is evaluated at import (a base, a decorator, a default) into a function"
        super().__init__("PG403", at, f"{names} need each other when the module is imported", hint)
        self.merged = merged


def order_blocks(gathered: Gathered, builder: Builder) -> tuple[FlatBlock, ...]:
    """The blocks of `gathered`, each after what it needs when it is imported.

    Raises OrderError (PG403) where no order is the one in which Python runs them.
    """
    blocks = {block.block_id: block for block in gathered.blocks}
    given = _find_given_order(gathered, builder, blocks)
    placing = _Placing(blocks, given, find_constraints(gathered.blocks, builder))
    others = sorted(blocks, key=lambda block_id: _sort_key(block_id, builder))
    for block_id in (*given, *others):
        placing.place(block_id, ())
    return tuple(placing.placed.values())


def _find_given_order(
    gathered: Gathered, builder: Builder, blocks: dict[BlockId, FlatBlock]
) -> tuple[BlockId, ...]:
    """The blocks whose order is given: the followed module's, or the modular file's own classes."""
    if gathered.base is None:
        return _find_own_classes(blocks, builder)
    given: dict[BlockId, None] = {}
    for block in builder.index(gathered.base).blocks:
        # A block of the modular file stands where the one that it replaces stood.
        given.update(dict.fromkeys(_find_replacing(block, gathered.base, builder)))
        given.setdefault(BlockId(gathered.base, block.first))
    return tuple(block_id for block_id in given if block_id in blocks)


def _find_own_classes(blocks: dict[BlockId, FlatBlock], builder: Builder) -> tuple[BlockId, ...]:
    """The classes of the modular files, in their order.

    Functions and constants stand with the class that uses them first.
    """
    found: list[BlockId] = []
    for block_id, block in blocks.items():
        if block.kind == "class" and block_id.module in builder.layers:
            found.append(block_id)
    return tuple(sorted(found, key=lambda block_id: _sort_key(block_id, builder)))


def _find_replacing(block: Block, module: str, builder: Builder) -> list[BlockId]:
    """The statements of modular files that define what `block` of `module` defines."""
    replacing: list[BlockId] = []
    for name in block.defines:
        key = builder.naming.resolve(Symbol(module, name), module).key
        if key is not None and key.module != module:
            replacing += builder.block_ids(key)
    return replacing


def _sort_key(block_id: BlockId, builder: Builder) -> tuple[int, str, int]:
    """Modules by name, then the modular files, from the one extended most to the nearest."""
    layers = [layer.source.module for layer in builder.naming.plan.layers]
    rank = 0
    if block_id.module in layers:
        # What a file extends was defined before it.
        rank = len(layers) - layers.index(block_id.module)
    return (rank, block_id.module, block_id.first)


def _stands_later(needed: BlockId, block_id: BlockId) -> bool:
    """Whether `needed` stands below `block_id` in one module: `N += [...]` below `N = []`."""
    return needed.module == block_id.module and needed.first > block_id.first


class _Placing:
    """Places blocks one after the other, each with what has to stand before it."""

    def __init__(
        self, blocks: dict[BlockId, FlatBlock], given: tuple[BlockId, ...], before: Before
    ) -> None:
        self._blocks = blocks
        self._given = frozenset(given)
        self._before = before
        # Several blocks may bind one name: `NAMES = []` and `NAMES += [...]`.
        self._definers: dict[str, list[BlockId]] = {}
        for block_id, block in blocks.items():
            for name in block.defines:
                self._definers.setdefault(name, []).append(block_id)
        self._followers = self._find_followers()
        self.placed: dict[BlockId, FlatBlock] = {}

    def place(self, block_id: BlockId, below: tuple[BlockId, ...]) -> None:
        """Place `block_id`, for which the blocks `below` are waiting.

        What it needs comes first.  What changes it further down its own module comes after it.
        """
        if block_id in self.placed:
            return
        after = self._place_needed(block_id, below)
        # Placing what it needs may have placed it too.
        self.placed.setdefault(block_id, self._blocks[block_id])
        for needed in after:
            if needed not in self._given and self._is_free(needed, below):
                self.place(needed, below)
        for follower in self._followers.get(block_id, ()):
            if follower not in self._given and self._can_follow(follower, below):
                self.place(follower, below)

    def _place_needed(self, block_id: BlockId, below: tuple[BlockId, ...]) -> list[BlockId]:
        """Place what `block_id` needs; returns what changes it later, which is not placed yet."""
        required = self._before.get(block_id, {})
        waiting = (*below, block_id)
        after = []
        for needed in self._find_needed(block_id):
            if needed in self.placed or needed == block_id:
                continue
            if needed in required:
                self._place_required(needed, block_id, below)
            elif _stands_later(needed, block_id):
                after.append(needed)
            # What is only read when a function runs need not come first, but reads better so.
            elif needed not in self._given and self._is_free(needed, waiting):
                self.place(needed, waiting)
        return after

    def _find_followers(self) -> dict[BlockId, list[BlockId]]:
        """For each block the statements below it that change it and that no code needs.

        They follow it as in their own module, `@operator.register_fake` behind `operator`.
        Otherwise they would stand at the end of the file.
        """
        needed: set[str] = set()
        for block in self._blocks.values():
            needed.update(dependency.name for dependency in block.dependencies)
        followers: dict[BlockId, list[BlockId]] = {}
        for block_id in sorted(
            self._blocks, key=lambda block_id: (block_id.module, block_id.first)
        ):
            if not needed.isdisjoint(self._blocks[block_id].defines):
                continue
            for changed in self._before.get(block_id, {}):
                if _stands_later(block_id, changed):
                    followers.setdefault(changed, []).append(block_id)
        return followers

    def _can_follow(self, block_id: BlockId, below: tuple[BlockId, ...]) -> bool:
        """Whether `block_id` can be placed now, with no block of the given order out of order."""
        waiting = [needed for needed in self._before.get(block_id, {}) if needed not in self.placed]
        return self._is_free(block_id, below) and self._given.isdisjoint(waiting)

    def _place_required(
        self, needed: BlockId, block_id: BlockId, below: tuple[BlockId, ...]
    ) -> None:
        """Place `needed` before `block_id`.

        Raises OrderError where `needed` waits for `block_id` in turn.
        """
        if needed not in below:
            self.place(needed, (*below, block_id))
            return
        pair = [self._blocks[needed], self._blocks[block_id]]
        names = " and ".join(block.name or "a statement" for block in pair)
        reported = choose_reported_block([self._blocks[block_id], self._blocks[needed]])
        # The blocks that wait for each other: one of them may be a class that was merged.
        cycle = [self._blocks[each] for each in (*below[below.index(needed) :], block_id)]
        merged = tuple(block.rewritten[0].symbol for block in cycle if len(block.rewritten) > 1)
        raise OrderError(reported.rewritten[0].at(1, 0), names, merged)

    def _is_free(self, needed: BlockId, below: tuple[BlockId, ...]) -> bool:
        """Whether `needed` can be placed now: none of `below` has to stand before it."""
        seen: set[BlockId] = set()
        queue = [needed]
        while queue:
            block_id = queue.pop()
            if block_id in below:
                return False
            if block_id not in seen and block_id not in self.placed:
                seen.add(block_id)
                queue += self._before.get(block_id, {})
        return True

    def _find_needed(self, block_id: BlockId) -> list[BlockId]:
        """What has to stand before `block_id` or is read by it, in the order of the files."""
        found = set(self._before.get(block_id, ()))
        for dependency in self._blocks[block_id].dependencies:
            found |= set(self._definers.get(dependency.name, ()))
        return sorted(found, key=lambda needed: (needed.module, needed.first))
