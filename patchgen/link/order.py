"""In which order the blocks of a flat file stand.

A file that follows a parent keeps the parent's order, with changed blocks in place; every other block comes just
before its first user.  A file that follows none begins with the modular file's order.
"""

from __future__ import annotations

from patchgen.errors import PatchgenError
from patchgen.link.flatblock import Builder, FlatBlock, Unit
from patchgen.link.gather import Gathered
from patchgen.plan.model import Symbol


def order(gathered: Gathered, builder: Builder) -> tuple[FlatBlock, ...]:
    """The blocks of `gathered`, each after what it needs when it is imported.

    Raises PatchgenError PG403 where blocks need each other at import.
    """
    blocks = {block.unit: block for block in gathered.blocks}
    spine = _spine(gathered, builder, blocks)
    placing = _Placing(blocks, spine)
    for unit in (*spine, *sorted(blocks, key=lambda unit: _position(unit, builder))):
        placing.place(unit, {})
    return tuple(placing.placed.values())


def _spine(gathered: Gathered, builder: Builder, blocks: dict[Unit, FlatBlock]) -> tuple[Unit, ...]:
    """The units whose order is given: the followed module's, or the modular file's own classes."""
    if gathered.base is None:
        own = {layer.source.module for layer in builder.naming.plan.layers}
        classes = [u for u, block in blocks.items() if u.module in own and block.kind == "class"]
        return tuple(sorted(classes, key=lambda unit: _position(unit, builder)))
    spine: dict[Unit, None] = {}
    for block in builder.index(gathered.base).blocks:
        unit = Unit(gathered.base, block.first)
        keys = [builder.naming.place(Symbol(gathered.base, name), gathered.base).key for name in block.defines]
        for key in keys:
            if key is not None and key.module != gathered.base:
                spine.update(dict.fromkeys(builder.units(key)))
        spine.setdefault(unit)
    return tuple(unit for unit in spine if unit in blocks)


def _position(unit: Unit, builder: Builder) -> tuple[int, str, int]:
    """Modular files last and in their own order; other modules by name."""
    layers = [layer.source.module for layer in builder.naming.plan.layers]
    rank = len(layers) - layers.index(unit.module) if unit.module in layers else 0
    return (rank, unit.module, unit.first)


def _stands_later(needed: Unit, unit: Unit) -> bool:
    """Whether both are of one module, and `needed` is executed after `unit` there: `NAMES += [...]` further down."""
    return needed.module == unit.module and needed.first > unit.first


Below = dict[Unit, bool]


class _Placing:
    def __init__(self, blocks: dict[Unit, FlatBlock], spine: tuple[Unit, ...]) -> None:
        self._blocks = blocks
        self._spine = frozenset(spine)
        self._definers: dict[str, list[Unit]] = {}
        for unit, block in blocks.items():
            for name in block.defines:
                self._definers.setdefault(name, []).append(unit)
        self.placed: dict[Unit, FlatBlock] = {}

    def place(self, unit: Unit, below: Below) -> bool:
        """Place `unit` after what it needs; False where it has to wait for one of those `below`, which come first.

        `below` are the blocks that are being placed, each with whether it needs the next one when it is imported.
        """
        if unit in self.placed:
            return True
        block = self._blocks[unit]
        behind = []
        for needed, eager in self._needed(block):
            if needed in self.placed or needed == unit:
                continue
            if _stands_later(needed, unit):
                behind.append(needed)
            elif needed in below or needed in self._spine:
                if eager and not self._require(needed, unit, below):
                    return False
            elif not self.place(needed, {**below, unit: eager}):
                if eager:
                    return False
                behind.append(needed)
        self.placed.setdefault(unit, block)
        for needed in behind:
            if needed not in self._spine:
                self.place(needed, {**below, unit: False})
        return True

    def _require(self, needed: Unit, unit: Unit, below: Below) -> bool:
        """Bring `needed` forward; two blocks that need each other at import cannot both come first."""
        if needed in below:
            between = list(below)[list(below).index(needed) :]
            if not all(below[each] for each in between):
                return False
            names = " and ".join(self._blocks[u].name for u in (needed, unit))
            at = self._blocks[unit].pieces[0].at(1, 0)
            hint = "move what is evaluated at import (a base, a decorator, a default) into a function"
            raise PatchgenError("PG403", at, f"{names} need each other when the module is imported", hint)
        return self.place(needed, {**below, unit: True})

    def _needed(self, block: FlatBlock) -> list[tuple[Unit, bool]]:
        found = [(u, need.eager) for need in block.needs for u in self._definers.get(need.name, ())]
        return sorted(found, key=lambda pair: (pair[0].module, pair[0].first))
