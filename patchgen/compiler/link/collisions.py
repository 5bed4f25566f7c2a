"""One name, one thing: what happens when code of several modules meets in one file."""

from __future__ import annotations

import ast
import builtins

from patchgen.compiler.link.equivalence import is_copied_freely
from patchgen.compiler.link.flatblock import Builder, Dependency, FlatBlock
from patchgen.errors import PatchgenError
from patchgen.syntax.scopes import references

_BUILTINS = frozenset(dir(builtins))


def choose_reported_block(blocks: list[FlatBlock]) -> FlatBlock:
    """The block that a modular file declares, where one of `blocks` is such: that is where the reader can act."""
    return min(blocks, key=lambda block: ".modular_" not in f".{block.unit.module}")


def remove_duplicates(
    blocks: tuple[FlatBlock, ...], imports: dict[str, Dependency], builder: Builder
) -> tuple[FlatBlock, ...]:
    """`blocks` without the repetitions of a text that two modules share (`logger = ...`, `rotate_half`).

    Raises PatchgenError PG401 where two modules define different things under one name, or where one defines what the
    other imports or finds among the builtins.
    """
    _refuse_hidden_builtins(blocks, imports)
    read = {need.name for block in blocks for need in block.needs}
    owner: dict[str, FlatBlock] = {}
    kept: list[FlatBlock] = []
    for block in blocks:
        rivals = [
            known for name in block.defines if (known := owner.setdefault(name, block)) is not block
        ]
        strangers = [known for known in rivals if known.unit.module != block.unit.module]
        if strangers and not any(name in read or name[0] != "_" for name in block.defines):
            strangers = []  # `def _` under a decorator: the name is never asked for
        if strangers and all(known.text == block.text for known in strangers):
            if all(is_copied_freely(builder.source_block(b.unit)) for b in (block, *strangers)):
                continue
        at = choose_reported_block([block, *strangers]).pieces[0].at(1, 0)
        if strangers:
            name = next(name for name in block.defines if owner[name] in strangers)
            how = (
                "in the same words, but as another object,"
                if strangers[0].text == block.text
                else "differently,"
            )
            what = (
                f"{name} is defined in {strangers[0].unit.module} and, {how} in {block.unit.module}"
            )
            hint = f"give one of them another name, or define {name} in the modular file: it then counts for both"
            raise PatchgenError("PG401", at, what, hint)
        clash = next(
            (
                n
                for n in block.defines
                if n in imports and block.kind not in ("guard", "other", "import")
            ),
            None,
        )
        if clash is not None:
            need = imports[clash]
            what = f"{clash} is defined in {block.unit.module} and imported as {need.symbol} for {need.home}"
            raise PatchgenError("PG401", at, what, "rename one of them")
        kept.append(block)
    return tuple(kept)


def _refuse_hidden_builtins(blocks: tuple[FlatBlock, ...], imports: dict[str, Dependency]) -> None:
    """Raises PG401 where code that means a builtin would find another module's definition of that name."""
    definers = {
        name: block.unit.module for block in blocks for name in block.defines if name in _BUILTINS
    }
    definers |= {name: str(need.symbol) for name, need in imports.items() if name in _BUILTINS}
    for piece in (piece for block in blocks for piece in block.pieces) if definers else ():
        for reference in references(ast.parse(piece.text).body):
            name = reference.name
            if name in definers and name not in piece.dependencies and name not in piece.defines:
                what = f"{name} is the builtin here, and in the flat file that of {definers[name]}"
                hint = f"write builtins.{name} here, or give the other one another name"
                raise PatchgenError("PG401", piece.at(reference.line, reference.column), what, hint)
