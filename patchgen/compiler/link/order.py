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
from patchgen.errors import Location, PatchgenError
from patchgen.syntax.blocks import Block


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
    blocks = {block.unit: block for block in gathered.blocks}
    given = _find_given_order(gathered, builder, blocks)
    placing = _Placing(blocks, given, find_constraints(gathered.blocks, builder))
    others = sorted(blocks, key=lambda unit: _sort_key(unit, builder))
    for unit in (*given, *others):
        placing.place(unit, ())
    return tuple(placing.placed.values())


def _find_given_order(
    gathered: Gathered, builder: Builder, blocks: dict[BlockId, FlatBlock]
) -> tuple[BlockId, ...]:
    """The blocks whose order is given: the followed module's, or the modular file's own classes."""
    if gathered.base is None:
        own = [unit for unit in blocks if unit.module in builder.layers]
        # Functions and constants stand with the class that uses them first.
        classes = [unit for unit in own if blocks[unit].kind == "class"]
        return tuple(sorted(classes, key=lambda unit: _sort_key(unit, builder)))
    given: dict[BlockId, None] = {}
    for block in builder.index(gathered.base).blocks:
        # A block of the modular file stands where the one that it replaces stood.
        given.update(dict.fromkeys(_find_replacing(block, gathered.base, builder)))
        given.setdefault(BlockId(gathered.base, block.first))
    return tuple(unit for unit in given if unit in blocks)


def _find_replacing(block: Block, module: str, builder: Builder) -> list[BlockId]:
    """The statements of modular files that define what `block` of `module` defines."""
    replacing: list[BlockId] = []
    for name in block.defines:
        key = builder.naming.resolve(Symbol(module, name), module).key
        if key is not None and key.module != module:
            replacing += builder.units(key)
    return replacing


def _sort_key(unit: BlockId, builder: Builder) -> tuple[int, str, int]:
    """Modules by name, then the modular files, from the one extended most to the nearest."""
    layers = [layer.source.module for layer in builder.naming.plan.layers]
    # What a file extends was defined before it.
    rank = len(layers) - layers.index(unit.module) if unit.module in layers else 0
    return (rank, unit.module, unit.first)


def _stands_later(needed: BlockId, unit: BlockId) -> bool:
    """Whether `needed` stands below `unit` in one module: `NAMES += [...]` below `NAMES = []`."""
    return needed.module == unit.module and needed.first > unit.first


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
        for unit, block in blocks.items():
            for name in block.defines:
                self._definers.setdefault(name, []).append(unit)
        self._followers = self._find_followers()
        self.placed: dict[BlockId, FlatBlock] = {}

    def place(self, unit: BlockId, below: tuple[BlockId, ...]) -> None:
        """Place `unit`, for which the blocks `below` are waiting.

        What it needs comes first.  What changes it further down its own module comes after it.
        """
        if unit in self.placed:
            return
        after = self._place_needed(unit, below)
        # Placing what it needs may have placed it too.
        self.placed.setdefault(unit, self._blocks[unit])
        for needed in after:
            if needed not in self._given and self._is_free(needed, below):
                self.place(needed, below)
        for follower in self._followers.get(unit, ()):
            if follower not in self._given and self._can_follow(follower, below):
                self.place(follower, below)

    def _place_needed(self, unit: BlockId, below: tuple[BlockId, ...]) -> list[BlockId]:
        """Place what `unit` needs; returns what changes it later, which is not placed yet."""
        required = self._before.get(unit, {})
        after = []
        for needed in self._find_needed(unit):
            if needed in self.placed or needed == unit:
                continue
            if needed in required:
                self._place_required(needed, unit, below)
            elif _stands_later(needed, unit):
                after.append(needed)
            # What is only read when a function runs need not come first, but reads better so.
            elif needed not in self._given and self._is_free(needed, (*below, unit)):
                self.place(needed, (*below, unit))
        return after

    def _find_followers(self) -> dict[BlockId, list[BlockId]]:
        """For each block the statements below it that change it and that no code needs.

        They follow it as in their own module, `@operator.register_fake` behind `operator`.
        Otherwise they would stand at the end of the file.
        """
        needed: set[str] = set()
        for block in self._blocks.values():
            needed.update(need.name for need in block.needs)
        followers: dict[BlockId, list[BlockId]] = {}
        for unit in sorted(self._blocks, key=lambda unit: (unit.module, unit.first)):
            if not needed.isdisjoint(self._blocks[unit].defines):
                continue
            for changed in self._before.get(unit, {}):
                if _stands_later(unit, changed):
                    followers.setdefault(changed, []).append(unit)
        return followers

    def _can_follow(self, unit: BlockId, below: tuple[BlockId, ...]) -> bool:
        """Whether `unit` can be placed now, with no block of the given order out of its turn."""
        waiting = [needed for needed in self._before.get(unit, {}) if needed not in self.placed]
        return self._is_free(unit, below) and self._given.isdisjoint(waiting)

    def _place_required(self, needed: BlockId, unit: BlockId, below: tuple[BlockId, ...]) -> None:
        """Place `needed` before `unit`.

        Raises OrderError where `needed` waits for `unit` in turn.
        """
        if needed not in below:
            self.place(needed, (*below, unit))
            return
        pair = [self._blocks[needed], self._blocks[unit]]
        names = " and ".join(block.name or "a statement" for block in pair)
        reported = choose_reported_block([self._blocks[unit], self._blocks[needed]])
        # The blocks that wait for each other: one of them may be a class that was merged.
        cycle = [self._blocks[each] for each in (*below[below.index(needed) :], unit)]
        merged = tuple(block.pieces[0].symbol for block in cycle if len(block.pieces) > 1)
        raise OrderError(reported.pieces[0].at(1, 0), names, merged)

    def _is_free(self, needed: BlockId, below: tuple[BlockId, ...]) -> bool:
        """Whether `needed` can be placed now: none of `below` has to stand before it."""
        seen: set[BlockId] = set()
        queue = [needed]
        while queue:
            unit = queue.pop()
            if unit in below:
                return False
            if unit not in seen and unit not in self.placed:
                seen.add(unit)
                queue += self._before.get(unit, {})
        return True

    def _find_needed(self, unit: BlockId) -> list[BlockId]:
        """What has to stand before `unit` or is read by it, in the order of the files."""
        found = set(self._before.get(unit, ()))
        for need in self._blocks[unit].needs:
            found |= set(self._definers.get(need.name, ()))
        return sorted(found, key=lambda needed: (needed.module, needed.first))
