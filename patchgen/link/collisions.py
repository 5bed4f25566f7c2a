"""One name, one thing: what happens when code of several modules meets in one file."""

from __future__ import annotations

from patchgen.errors import PatchgenError
from patchgen.link.flatblock import FlatBlock, Need


def _modular_first(blocks: list[FlatBlock]) -> FlatBlock:
    """The block that a modular file declares, where one of `blocks` is such: that is where the reader can act."""
    return min(blocks, key=lambda block: ".modular_" not in f".{block.unit.module}")


def one_of_each(blocks: tuple[FlatBlock, ...], imports: dict[str, Need]) -> tuple[FlatBlock, ...]:
    """`blocks` without the repetitions of a text that two modules share (`logger = ...`, `rotate_half`).

    Raises PatchgenError PG401 where two modules define different things under one name, or where one defines what the
    other imports.
    """
    owner: dict[str, FlatBlock] = {}
    kept: list[FlatBlock] = []
    for block in blocks:
        rivals = [known for name in block.defines if (known := owner.setdefault(name, block)) is not block]
        strangers = [known for known in rivals if known.unit.module != block.unit.module]
        if strangers and all(known.text == block.text for known in strangers):
            continue
        at = _modular_first([block, *strangers]).pieces[0].at(1, 0)
        if strangers:
            name = next(name for name in block.defines if owner[name] in strangers)
            what = f"{name} is defined in {strangers[0].unit.module} and, differently, in {block.unit.module}"
            hint = f"give one of them another name, or define {name} in the modular file: it then counts for both"
            raise PatchgenError("PG401", at, what, hint)
        clash = next((n for n in block.defines if n in imports and block.kind not in ("guard", "other")), None)
        if clash is not None:
            need = imports[clash]
            what = f"{clash} is defined in {block.unit.module} and imported as {need.symbol} for {need.home}"
            raise PatchgenError("PG401", at, what, "rename one of them")
        kept.append(block)
    return tuple(kept)
