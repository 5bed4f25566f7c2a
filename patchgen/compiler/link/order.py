"""In which order the blocks of a flat file stand.

A file that follows a parent keeps the parent's order, with changed blocks in place; every other block comes just
before its first user.  A file that follows none begins with the modular file's order.  That is how it reads best; it
holds as far as nobody can tell.  Of two statements of which one changes what the other reads or changes, the first is
the one that Python would run first (`trace`):

    LIMIT = 3                     LIMIT = 3
    class Base:                   class Base:          the modular file's class, which reads LIMIT where
        low = LIMIT        ->         low = LIMIT      the parent's did
    LIMIT = 5                     LIMIT = 5

A merged class stands for its parent's statement and for the modular file's.  Where no place is right for both, it
stays a subclass, and each statement stands in its own place; one that has to be merged is refused with the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from patchgen.compiler.link.collisions import choose_reported_block
from patchgen.compiler.link.execution import trace
from patchgen.compiler.link.flatblock import BlockId, Builder, FlatBlock
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.errors import Location, PatchgenError


class OrderError(PatchgenError):
    """Statements that have to come before each other; `merged` are the classes among them that were merged."""

    def __init__(self, at: Location, names: str, merged: tuple[Symbol, ...]) -> None:
        hint = "move what is evaluated at import (a base, a decorator, a default) into a function"
        super().__init__("PG403", at, f"{names} need each other when the module is imported", hint)
        self.merged = merged


def order(gathered: Gathered, builder: Builder) -> tuple[FlatBlock, ...]:
    """The blocks of `gathered`, each after what it needs when it is imported.

    Raises OrderError (PG403) where no order is the one in which Python runs them.
    """
    blocks = {block.unit: block for block in gathered.blocks}
    spine = _spine(gathered, builder, blocks)
    placing = _Placing(blocks, spine, _before(gathered.blocks, builder))
    for unit in (*spine, *sorted(blocks, key=lambda unit: _position(unit, builder))):
        placing.place(unit, ())
    return tuple(placing.placed.values())


def _spine(
    gathered: Gathered, builder: Builder, blocks: dict[BlockId, FlatBlock]
) -> tuple[BlockId, ...]:
    """The units whose order is given: the followed module's, or the modular file's own classes."""
    if gathered.base is None:
        own = {layer.source.module for layer in builder.naming.plan.layers}
        classes = [u for u, block in blocks.items() if u.module in own and block.kind == "class"]
        return tuple(sorted(classes, key=lambda unit: _position(unit, builder)))
    spine: dict[BlockId, None] = {}
    for block in builder.index(gathered.base).blocks:
        unit = BlockId(gathered.base, block.first)
        keys = [
            builder.naming.resolve(Symbol(gathered.base, name), gathered.base).key
            for name in block.defines
        ]
        for key in keys:
            if key is not None and key.module != gathered.base:
                spine.update(dict.fromkeys(builder.units(key)))
        spine.setdefault(unit)
    return tuple(unit for unit in spine if unit in blocks)


def _position(unit: BlockId, builder: Builder) -> tuple[int, str, int]:
    """Modular files last and in their own order; other modules by name."""
    layers = [layer.source.module for layer in builder.naming.plan.layers]
    rank = len(layers) - layers.index(unit.module) if unit.module in layers else 0
    return (rank, unit.module, unit.first)


def _stands_later(needed: BlockId, unit: BlockId) -> bool:
    """Whether both are of one module, and `needed` is executed after `unit` there: `NAMES += [...]` further down."""
    return needed.module == unit.module and needed.first > unit.first


@dataclass
class _Uses:
    """Who changes a name and who reads it, each with its place in the order of execution."""

    changes: list[tuple[int, BlockId]] = field(default_factory=list)
    reads: list[tuple[int, BlockId]] = field(default_factory=list)

    def pairs(self) -> Iterator[tuple[BlockId, BlockId]]:
        """Whoever comes first, and who comes after."""
        for place, unit in self.changes:
            for other_place, other in (*self.changes, *self.reads):
                if other != unit and place != other_place:
                    yield (unit, other) if place < other_place else (other, unit)


def _before(blocks: tuple[FlatBlock, ...], builder: Builder) -> dict[BlockId, dict[BlockId, str]]:
    """For each unit those that have to come before it, with the name on which that depends."""
    places = trace({piece.symbol.module for block in blocks for piece in block.pieces}, builder)
    uses: dict[str, _Uses] = {}
    for block in blocks:
        for piece in block.pieces:
            _note(block, piece, places, uses, builder)
    before: dict[BlockId, dict[BlockId, str]] = {}
    for name, use in uses.items():
        for first, second in use.pairs():
            before.setdefault(second, {}).setdefault(first, name)
    bound = Counter(name for block in blocks for name in block.defines)
    imports = [block for block in blocks if block.kind == "import"]
    imported = {name: block.unit for block in imports for name in block.defines if bound[name] == 1}
    for block in blocks:
        for need in block.needs:
            if need.eager and need.name in imported:
                before.setdefault(block.unit, {}).setdefault(imported[need.name], need.name)
    return before


def _note(
    block: FlatBlock,
    piece: RewrittenBlock,
    places: dict[BlockId, int],
    uses: dict[str, _Uses],
    builder: Builder,
) -> None:
    """Enter what `piece` of `block` reads and changes, by the names of the flat file."""
    home = piece.symbol.module
    unit = BlockId(home, piece.first)
    index, source = builder.index(home), builder.source_block(unit)
    if block.aside:
        uses.setdefault(block.name, _Uses()).changes.append((places[unit], block.unit))
    change = builder.changes.of(index, source)
    for symbol in change.symbols | change.reads:
        found = builder.naming.resolve(symbol, home)
        if found.key is None:
            continue
        place = places[unit]
        is_own = symbol.module == home and symbol.name in source.defines
        if is_own != (found.name in block.defines):
            continue  # a class of the chain, which is merged or stands in the file by itself
        if is_own:
            place = min([place, *_replaced_places(found.name, found.key, places, builder)])
            place = min([place, *_merged_places(block, places, builder)])
        use = uses.setdefault(_name_in(block, symbol, found.name, builder), _Uses())
        (use.changes if symbol in change.symbols else use.reads).append((place, block.unit))
    if (change.outside or block.kind == "import") and piece is block.pieces[0]:
        uses.setdefault("", _Uses()).changes.append((places[unit], block.unit))


def _name_in(block: FlatBlock, symbol: Symbol, name: str, builder: Builder) -> str:
    """What `block` calls `symbol`: a statement below a parent may mean the parent that is put aside, not `name`."""
    aside = builder.naming.aside(symbol)
    meant = aside is not None and any(need.name == aside for need in block.needs)
    return aside if aside is not None and meant else name


def _merged_places(block: FlatBlock, places: dict[BlockId, int], builder: Builder) -> Iterator[int]:
    """Where the parents define a class that was merged into `block` and is called as it is."""
    for piece in block.pieces[1:]:
        if builder.naming.resolve(piece.symbol, piece.symbol.module).name == block.name:
            yield places[BlockId(piece.symbol.module, piece.first)]


def _replaced_places(
    name: str, key: Symbol, places: dict[BlockId, int], builder: Builder
) -> Iterator[int]:
    """Where the parents bind `name`, if what the modular files declare as `key` takes its place."""
    plan = builder.naming.plan
    if key.module not in {layer.source.module for layer in plan.layers}:
        return
    for parent in plan.parents:
        for block in builder.index(parent).blocks:
            unit = BlockId(parent, block.first)
            taken = (
                name in block.defines
                and builder.naming.resolve(Symbol(parent, name), parent).key == key
            )
            if taken and block.kind != "import" and unit in places:
                yield places[unit]


class _Placing:
    def __init__(
        self,
        blocks: dict[BlockId, FlatBlock],
        spine: tuple[BlockId, ...],
        before: dict[BlockId, dict[BlockId, str]],
    ) -> None:
        self._blocks = blocks
        self._spine = frozenset(spine)
        self._before = before
        self._definers: dict[str, list[BlockId]] = {}
        for unit, block in blocks.items():
            for name in block.defines:
                self._definers.setdefault(name, []).append(unit)
        self._followers = self._find_followers()
        self.placed: dict[BlockId, FlatBlock] = {}

    def place(self, unit: BlockId, below: tuple[BlockId, ...]) -> None:
        if unit in self.placed:
            return
        block = self._blocks[unit]
        forced = self._before.get(unit, {})
        behind = []
        for needed in self._needed(block):
            if needed in self.placed or needed == unit:
                continue
            if needed in forced:
                self._require(needed, unit, below)
            elif _stands_later(needed, unit):
                behind.append(needed)
            elif needed not in self._spine and self._is_free(needed, (*below, unit)):
                self.place(needed, (*below, unit))
        self.placed.setdefault(unit, block)
        for needed in behind:
            if needed not in self._spine and self._is_free(needed, below):
                self.place(needed, below)
        for follower in self._followers.get(unit, ()):
            if follower not in self._spine and self._can_follow(follower, below):
                self.place(follower, below)

    def _find_followers(self) -> dict[BlockId, list[BlockId]]:
        """For each unit the statements further down its file that change it and that no code needs.

        They follow it as they do at home, `@operator.register_fake` behind `operator`, not at the end of the file.
        """
        needed = {need.name for block in self._blocks.values() for need in block.needs}
        found: dict[BlockId, list[BlockId]] = {}
        for unit in sorted(self._blocks, key=lambda unit: (unit.module, unit.first)):
            if needed.isdisjoint(self._blocks[unit].defines):
                for changed in self._before.get(unit, {}):
                    if _stands_later(unit, changed):
                        found.setdefault(changed, []).append(unit)
        return found

    def _can_follow(self, unit: BlockId, below: tuple[BlockId, ...]) -> bool:
        """Whether `unit` can be placed now without a statement of the given order before its turn."""
        waiting = [needed for needed in self._before.get(unit, {}) if needed not in self.placed]
        return self._is_free(unit, below) and self._spine.isdisjoint(waiting)

    def _require(self, needed: BlockId, unit: BlockId, below: tuple[BlockId, ...]) -> None:
        """Bring `needed` forward; of two blocks that have to come before each other neither can."""
        if needed in below:
            names = " and ".join(self._blocks[u].name or "a statement" for u in (needed, unit))
            at = (
                choose_reported_block([self._blocks[unit], self._blocks[needed]]).pieces[0].at(1, 0)
            )
            circle = [self._blocks[u] for u in (*below[below.index(needed) :], unit)]
            raise OrderError(
                at, names, tuple(b.pieces[0].symbol for b in circle if len(b.pieces) > 1)
            )
        self.place(needed, (*below, unit))

    def _is_free(self, needed: BlockId, below: tuple[BlockId, ...]) -> bool:
        """Whether `needed` can stand before those that are being placed: nothing that it needs is one of them."""
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

    def _needed(self, block: FlatBlock) -> list[BlockId]:
        """What stands before `block`, or had better stand there, in the order of the files."""
        found = {u for need in block.needs for u in self._definers.get(need.name, ())}
        return sorted(
            found | set(self._before.get(block.unit, ())),
            key=lambda unit: (unit.module, unit.first),
        )
