"""Let each name of a flat file stand for one thing.

modeling_a.py:  logger = logging.get_logger(__name__)      carried once
modeling_b.py:  logger = logging.get_logger(__name__)

modeling_a.py:  def scale(x): return x * 2                 PG401: `scale` would be one of them
modeling_b.py:  def scale(x): return x * 3
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container, Iterator

from patchgen.compiler.link.dependencies import Dependency
from patchgen.compiler.link.equivalence import is_copied_freely
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.plan.model import RewrittenBlock
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.scopes import references

_BUILTINS = frozenset(dir(builtins))


def choose_reported_block(blocks: list[FlatBlock]) -> FlatBlock:
    """The first block of a modular file, because its author can act; else the first block."""
    return min(blocks, key=lambda block: not _is_modular(block))


def _is_modular(block: FlatBlock) -> bool:
    return ".modular_" in f".{block.block_id.module}"


def remove_duplicates(
    blocks: tuple[FlatBlock, ...], imports: dict[str, Dependency], builder: Builder
) -> tuple[FlatBlock, ...]:
    """`blocks` without repetitions of a text that two modules share.

    Raises PatchgenError PG401 where two modules define different things under one name, or where
    one defines what the other imports or finds among the builtins.
    """
    _refuse_hidden_builtins(blocks, imports)
    read = {dependency.name for block in blocks for dependency in block.dependencies}
    owner: dict[str, FlatBlock] = {}
    kept: list[FlatBlock] = []
    for block in blocks:
        strangers = [
            each
            for each in _find_strangers(block, owner)
            if not _will_stay_subclass(block, each, builder)
        ]
        is_read = not read.isdisjoint(block.defines)
        is_private = all(name.startswith("_") for name in block.defines)
        # Nothing reads the name of `def _` under a decorator.
        if is_private and not is_read:
            strangers = []
        if strangers:
            if _are_copies([block, *strangers], builder):
                continue
            _raise_collision(block, strangers, owner, builder)
        _refuse_imported(block, imports)
        kept.append(block)
    return tuple(kept)


def _find_strangers(block: FlatBlock, owner: dict[str, FlatBlock]) -> list[FlatBlock]:
    """The blocks of other modules that define a name of `block`; `owner` is filled in."""
    strangers = []
    for name in block.defines:
        known = owner.setdefault(name, block)
        if known is not block and known.block_id.module != block.block_id.module:
            strangers.append(known)
    return strangers


def _will_stay_subclass(block: FlatBlock, other: FlatBlock, builder: Builder) -> bool:
    """Whether one is a parent that was merged into the other, and stands in the file as well.

    Such a parent has decorators that do something when they run.  `find_observed_merges` keeps the
    two classes apart, and the parent then gets a name of its own.
    """
    symbols = [each.rewritten[0].symbol for each in (block, other)]
    for symbol, parent in (symbols, reversed(symbols)):
        declaration = builder.naming.plan.declaration(symbol)
        if declaration is not None and declaration.is_merged and parent in declaration.parents:
            return not declaration.rewrites
    return False


def _are_copies(blocks: list[FlatBlock], builder: Builder) -> bool:
    """Whether the blocks have one text, and one object does for all of them."""
    if any(block.text != blocks[0].text for block in blocks):
        return False
    return all(is_copied_freely(builder.source_block(block.block_id)) for block in blocks)


def _raise_collision(
    block: FlatBlock, strangers: list[FlatBlock], owner: dict[str, FlatBlock], builder: Builder
) -> None:
    """Raise PG401 for the first name that two modules define."""
    name = next(name for name in block.defines if owner[name] in strangers)
    how = "differently,"
    if strangers[0].text == block.text:
        how = "in the same words, but as another object,"
    what = (
        f"{name} is defined in {strangers[0].block_id.module} and, {how} in {block.block_id.module}"
    )
    hint = (
        "give one of them another name, "
        f"or define {name} in the modular file: it then counts for both"
    )
    reported = choose_reported_block([block, *strangers])
    # A guarded definition of the modular file does not count for both.
    if reported.block_id.module == builder.naming.plan.modular.source.module:
        hint = f"give the {name} of this file another name"
    raise PatchgenError("PG401", reported.rewritten[0].at(1, 0), what, hint)


def _refuse_imported(block: FlatBlock, imports: dict[str, Dependency]) -> None:
    """Raise PG401 where `block` defines a name that the file imports."""
    # A guarded statement, or one that changes a name, may bind it beside the import.
    if block.kind in ("guard", "other", "import"):
        return
    for name in block.defines:
        if name in imports:
            dependency = imports[name]
            what = (
                f"{name} is defined in {block.block_id.module} "
                f"and imported as {dependency.symbol} for {dependency.home}"
            )
            raise PatchgenError("PG401", block.rewritten[0].at(1, 0), what, "rename one of them")


def _refuse_hidden_builtins(blocks: tuple[FlatBlock, ...], imports: dict[str, Dependency]) -> None:
    """Raise PG401 where code that means a builtin would find another module's definition."""
    definers = {name: block for block in blocks for name in _BUILTINS.intersection(block.defines)}
    imported = {name: imports[name] for name in _BUILTINS.intersection(imports)}
    # Next to no file binds one, and reading all references takes time.
    if not definers and not imported:
        return
    for block in blocks:
        for rewritten in block.rewritten:
            for name, at in _find_builtins_read(rewritten, {*definers, *imported}):
                _raise_hidden_builtin(name, at, definers.get(name), imported.get(name))


def _find_builtins_read(
    rewritten: RewrittenBlock, names: Container[str]
) -> Iterator[tuple[str, Location]]:
    """Where the code of a block reads a builtin that has one of `names`."""
    for reference in references(ast.parse(rewritten.text).body):
        name = reference.name
        # With a dependency, the code itself means the definition.
        is_own = name in rewritten.dependencies or name in rewritten.defines
        if name in names and not is_own:
            yield name, rewritten.at(reference.line, reference.column)


def _raise_hidden_builtin(
    name: str, at: Location, definer: FlatBlock | None, imported: Dependency | None
) -> None:
    """Raise PG401 for a read of the builtin `name`, which the flat file binds."""
    what = f"{name} is the builtin here, and in the flat file that of "
    hint = f"write builtins.{name} here, or give the other one another name"
    if definer is None:
        assert imported is not None
        raise PatchgenError("PG401", at, f"{what}{imported.symbol}", hint)
    place = definer.rewritten[0].at(1, 0)
    # Of the two, the author of a modular file can change the definition alone.
    if _is_modular(definer) and at.path != place.path:
        what = f"{name} would hide the builtin, which {at.path}:{at.line} reads"
        raise PatchgenError("PG401", place, what, f"give {name} another name")
    raise PatchgenError("PG401", at, f"{what}{definer.block_id.module}", hint)
