"""Where merging a class would change an answer of `isinstance`.

A class that is merged into another is no longer its base.  Nobody can tell, unless code of the flat file asks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.errors import PatchgenError
from patchgen.link.flatblock import Builder, FlatBlock
from patchgen.plan.model import Symbol

_QUESTIONS = frozenset({"isinstance", "issubclass"})


def refuse_lost_bases(blocks: tuple[FlatBlock, ...], builder: Builder) -> None:
    """Raises PatchgenError PG119 where a block asks for a class that was merged into others and is not one of them."""
    merged = _merged_elsewhere(blocks, builder)
    for block in blocks if merged else ():
        for node in _asked_for(block.text):
            need = next((need for need in block.needs if need.name == node.id), None)
            into = merged.get(need.symbol) if need else None
            if need and into:
                piece = block.pieces[0]
                at = piece.at(node.lineno, node.col_offset) if len(block.pieces) == 1 else piece.at(1, 0)
                what = f"isinstance asks for {need.symbol}, which is merged into {into} and no base of it any more"
                raise PatchgenError("PG119", at, what, f"ask for {into}, or for an attribute that it has")


def _merged_elsewhere(blocks: tuple[FlatBlock, ...], builder: Builder) -> dict[Symbol, str]:
    """Each class that was merged into a flat class of another name, with that name."""
    found: dict[Symbol, str] = {}
    for block in blocks:
        for piece in block.pieces[1:] if block.kind == "class" else ():
            place = builder.naming.place(piece.symbol, piece.symbol.module)
            if place.name != block.name:
                found[piece.symbol] = block.name
    return found


def _asked_for(text: str) -> Iterator[ast.Name]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _QUESTIONS:
            for argument in node.args[1:]:
                yield from (name for name in ast.walk(argument) if isinstance(name, ast.Name))
