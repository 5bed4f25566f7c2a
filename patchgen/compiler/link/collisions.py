"""Let each name of a flat file stand for one thing.

modeling_a.py:  logger = logging.get_logger(__name__)      carried once
modeling_b.py:  logger = logging.get_logger(__name__)

modeling_a.py:  def scale(x): return x * 2                 PG401: `scale` would be one of them
modeling_b.py:  def scale(x): return x * 3

Of modular files that are combined, one may define a public function or constant of another again,
for that file's code too, and a class may derive from the one of its name.  Elsewhere two
definitions of one name are an accident (PG129).
"""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Container, Iterator

from patchgen.compiler.link.flatblock import (
    Builder,
    Dependency,
    FlatBlock,
    is_copied_freely,
    mean_the_same,
)
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.lineage import bases_of
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError, Problem
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
            if _are_equal_texts([block, *strangers], builder):
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


def _are_equal_texts(blocks: list[FlatBlock], builder: Builder) -> bool:
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


def find_conflicts(builder: Builder) -> Iterator[Problem]:
    """A problem for each name of which one file's definition would be used for another file."""
    layers = builder.naming.plan.layers
    for nearer, further in itertools.combinations(layers, 2):
        for name in _find_shared_names(nearer, further):
            if not _may_replace(name, nearer, further, builder):
                yield _make_problem(name, nearer, further, builder)


def _find_shared_names(nearer: ModuleIndex, further: ModuleIndex) -> Iterator[str]:
    """The names that both files define."""
    for name in nearer.names:
        # Each output has an `__all__` of its own.
        if name == "__all__":
            continue
        if nearer.definition(name) and further.definition(name):
            yield name


def _may_replace(name: str, nearer: ModuleIndex, further: ModuleIndex, builder: Builder) -> bool:
    """Whether the definition in `nearer` may stand for the one in `further`."""
    plan = builder.naming.plan
    first, second = Symbol(nearer.source.module, name), Symbol(further.source.module, name)
    declaration = plan.declaration(first)
    if declaration is not None and second in _list_ancestors(declaration):
        return True
    if _is_settled(name, further, builder):
        return True
    if _define_alike(name, nearer, further, builder):
        return True
    # Two classes of one name are two classes, and a private name is not meant to be replaced.
    is_class = declaration is not None or plan.declaration(second) is not None
    if is_class or name.startswith("_"):
        return False
    return further.source.module in _find_extended(nearer, builder)


def _is_settled(name: str, further: ModuleIndex, builder: Builder) -> bool:
    """Whether the converted file declares a class `name` that derives from the one in `further`."""
    own = builder.naming.plan.modular.source.module
    declaration = builder.naming.plan.declaration(Symbol(own, name))
    if declaration is None:
        return False
    return Symbol(further.source.module, name) in _list_ancestors(declaration)


def _list_ancestors(declaration: Declaration) -> tuple[Symbol, ...]:
    """The classes that are merged into a class, and those that it stays a subclass of."""
    return (*declaration.chain[1:], *declaration.parents)


def _define_alike(name: str, nearer: ModuleIndex, further: ModuleIndex, builder: Builder) -> bool:
    """Whether both definitions have one text and read the same things."""
    # The same text may read different things in two files.
    block, copy = nearer.definition(name), further.definition(name)
    if block is None or copy is None or block.text != copy.text:
        return False
    return mean_the_same(block.uses - {name}, nearer, further, builder.naming.bindings)


def _find_extended(index: ModuleIndex, builder: Builder) -> set[str]:
    """The modular files that the classes of `index` derive from, directly or not."""
    found: set[str] = set()
    waiting = [index]
    while waiting:
        layer = waiting.pop()
        for name in layer.classes:
            for base in bases_of(builder.naming.bindings, layer, name):
                module = base.symbol.module
                if module not in found and module in builder.layers:
                    found.add(module)
                    waiting.append(builder.index(module))
    return found


def _make_problem(
    name: str, nearer: ModuleIndex, further: ModuleIndex, builder: Builder
) -> Problem:
    """The problem of a name that two modular files define differently."""
    block, other = nearer.definition(name), further.definition(name)
    assert block is not None and other is not None
    at = nearer.source.at(block.first)
    there = further.source.at(other.first)
    what = f"{name} is defined here and, differently, at {there}, and both files are combined"
    hint = "give one of them another name"
    # A class of both can be declared; a function of both cannot.
    if block.kind == other.kind == "class":
        own = builder.naming.plan.modular.source.path
        hint += f", or derive a class {name} from both in {own}"
    return PatchgenError("PG129", at, what, hint).problem
