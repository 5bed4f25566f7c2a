"""Let each name of a flat file stand for one thing.

modeling_a.py:  logger = logging.get_logger(__name__)      carried once
modeling_b.py:  logger = logging.get_logger(__name__)

modeling_a.py:  def scale(x): return x * 2                 scale, and b_scale for the code of b
modeling_b.py:  def scale(x): return x * 3

class NewAttention of modeling_a, of modeling_b    NewAttention, and BAttention for the code of b

A modular file has the first right to a name, then the model whose file it changes, then imports.
Of two other models, the one that gives more to the file has the names.

Of modular files that are combined, one may define a public function or constant of another again,
for that file's code too, and a class may derive from the one of its name.  Elsewhere two
definitions of one name are an accident (PG129).
"""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from patchgen.compiler.link.flatblock import (
    Builder,
    Dependency,
    FlatBlock,
)
from patchgen.compiler.plan.lineage import bases_of
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import NameClash
from patchgen.compiler.plan.same import is_copied_freely, mean_the_same
from patchgen.syntax.blocks import ModuleIndex, imports_of
from patchgen.syntax.bound import bound_names
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
    """`blocks`, each text once; raises NameClash where two definitions have one name."""
    _refuse_hidden_builtins(blocks, imports)
    read = set[str]().union(*(block.reads for block in blocks))
    owner: dict[str, FlatBlock] = {}
    kept: list[FlatBlock] = []
    clashes: list[tuple[str, FlatBlock, FlatBlock]] = []
    for block in blocks:
        # Nothing reads the name of `def _` under a decorator.
        counts = any(not name.startswith("_") or name in read for name in block.defines)
        strangers = []
        for name in block.defines:
            other = owner.setdefault(name, block)
            if (
                counts
                and other.block_id.module != block.block_id.module
                and not _will_stay_subclass(block, other, builder)
                and not (other.text != block.text and _import_alike(name, block, other))
            ):
                strangers.append((name, other))
        for name, other in strangers:
            # One object has to do for all of them.
            if (
                other.text != block.text
                or not is_copied_freely(builder.source_block(block.block_id))
                or not is_copied_freely(builder.source_block(other.block_id))
                or _is_asked_for(name, blocks)
            ):
                clashes.append((name, other, block))
        if strangers:
            continue
        # A guarded statement, or one that changes a name, may bind it beside the import.
        if block.kind not in ("guard", "other", "import"):
            _refuse_imported(block, imports, builder)
        kept.append(block)
    if clashes:
        _raise_first(clashes, Counter(block.block_id.module for block in kept), builder)
    return tuple(kept)


def _is_asked_for(name: str, blocks: Iterable[FlatBlock]) -> bool:
    """Whether code asks what is an object of a class: SigLIP 2 does of its own attention."""
    question = re.compile(rf"isinstance\([^()]+,[^)]*\b{name}\b")
    return any(question.search(block.text) for block in blocks)


def _import_alike(name: str, *blocks: FlatBlock) -> bool:
    """Whether statements only import one thing under a name, each with more beside it."""
    imported: set[tuple[str, str]] = set()
    for block in blocks:
        body = ast.parse(block.text).body
        items = [item for item in imports_of(body) if item.bound == name]
        bindings = [*bound_names(body)].count(name)
        if not items or bindings > len(items):
            return False
        imported.update((item.module, item.name) for item in items)
    return len(imported) == 1


def _will_stay_subclass(block: FlatBlock, other: FlatBlock, builder: Builder) -> bool:
    """Whether one is a parent that was merged into the other, and stands in the file as well.

    `find_subclasses` keeps the two classes apart, and the parent then gets a name of its own.
    """
    symbols = [block.symbol, other.symbol]
    for symbol, parent in (symbols, reversed(symbols)):
        declaration = builder.plan.declaration(symbol)
        if declaration is not None and declaration.is_merged and parent in declaration.parents:
            return not declaration.rewrites
    return False


def _raise_first(
    clashes: list[tuple[str, FlatBlock, FlatBlock]], sizes: Counter[str], builder: Builder
) -> None:
    """Raise the first clash that no other name ends, else the first of all."""
    symbols: frozenset[Symbol] = frozenset()
    for name, other, block in clashes:
        pair = sorted((other, block), key=lambda each: -sizes[each.block_id.module])
        lesser = builder.naming.lesser(*(each.symbol for each in pair))
        if not lesser:
            _raise_collision(name, other, block, builder, lesser)
        symbols |= lesser
    _raise_collision(*clashes[0], builder, symbols)


def _raise_collision(
    name: str, other: FlatBlock, block: FlatBlock, builder: Builder, symbols: frozenset[Symbol]
) -> None:
    same = other.text == block.text
    how = "in the same words, but as another object," if same else "differently,"
    what = f"{name} is defined in {other.block_id.module} and, {how} in {block.block_id.module}"
    hint = "give one of them another name, "
    hint += f"or define {name} in the modular file: it then counts for both"
    reported = choose_reported_block([block, other])
    # A guarded definition of the modular file does not count for both.
    if reported.block_id.module == builder.plan.modular.source.module:
        hint = f"give the {name} of this file another name"
    raise NameClash(symbols, reported.place, what, hint)


def _refuse_imported(block: FlatBlock, imports: dict[str, Dependency], builder: Builder) -> None:
    for name in block.defines:
        if name in imports:
            origin = f"imported as {imports[name].symbol} for {imports[name].home}"
            what = f"{name} is defined in {block.block_id.module} and {origin}"
            lesser = builder.naming.lesser(block.symbol, imports[name].symbol)
            raise NameClash(lesser, block.place, what, "rename one of them")


def _refuse_hidden_builtins(blocks: tuple[FlatBlock, ...], imports: dict[str, Dependency]) -> None:
    """Raise PG401 where code that means a builtin would find another module's definition."""
    definers: dict[str, FlatBlock | Dependency] = {}
    for name in _BUILTINS & imports.keys():
        definers[name] = imports[name]
    for block in blocks:
        for name in _BUILTINS.intersection(block.defines):
            definers[name] = block
    # Next to no file binds one, and reading all references takes time.
    if not definers:
        return
    for block in blocks:
        for rewritten in block.rewritten:
            # With a dependency, the code itself means the definition.
            hidden = definers.keys() - rewritten.dependencies.keys() - set(rewritten.defines)
            for reference in references(ast.parse(rewritten.text).body):
                if reference.name in hidden:
                    at = rewritten.at(reference.line, reference.column)
                    _raise_hidden_builtin(reference.name, at, definers[reference.name])


def _raise_hidden_builtin(name: str, at: Location, definer: FlatBlock | Dependency) -> None:
    if isinstance(definer, Dependency):
        origin = str(definer.symbol)
    else:
        origin = definer.block_id.module
        place = definer.place
        # Of the two, the author of a modular file can change the definition alone.
        if _is_modular(definer) and at.path != place.path:
            what = f"{name} would hide the builtin, which {at.path}:{at.line} reads"
            raise PatchgenError("PG401", place, what, f"give {name} another name")
    what = f"{name} is the builtin here, and in the flat file that of {origin}"
    hint = f"write builtins.{name} here, or give the other one another name"
    raise PatchgenError("PG401", at, what, hint)


def find_conflicts(builder: Builder) -> Iterator[Problem]:
    """A problem for each name of which one file's definition would be used for another file."""
    for nearer, further in itertools.combinations(builder.plan.layers, 2):
        for name in nearer.names:
            block = nearer.definition(name)
            other = further.definition(name)
            # Each output has an `__all__` of its own.
            if block is None or other is None or name == "__all__":
                continue
            if not _may_replace(name, nearer, further, builder):
                at = nearer.source.at(block.first)
                there = further.source.at(other.first)
                what = f"{name} is defined here and, differently, at {there}"
                what += ", and both files are combined"
                hint = "give one of them another name"
                # A class of both can be declared; a function of both cannot.
                if block.kind == other.kind == "class":
                    own = builder.plan.modular.source.path
                    hint += f", or derive a class {name} from both in {own}"
                yield Problem(at, "PG129", what, hint)


def _may_replace(name: str, nearer: ModuleIndex, further: ModuleIndex, builder: Builder) -> bool:
    """Whether the definition in `nearer` may stand for the one in `further`."""
    plan = builder.plan
    replaced = Symbol(further.source.module, name)
    # A class of `nearer`, or of the converted file, that derives from the other one.
    for layer in (nearer, plan.modular):
        declaration = plan.declaration(Symbol(layer.source.module, name))
        if declaration and replaced in (*declaration.chain[1:], *declaration.parents):
            return True
    block = nearer.definition(name)
    copy = further.definition(name)
    assert block is not None and copy is not None
    # The same text may read different things in two files.
    if block.text == copy.text and mean_the_same(
        block.uses - {name}, nearer, further, builder.naming
    ):
        return True
    # Two classes of one name are two classes, and a private name is not meant to be replaced.
    if "class" in (block.kind, copy.kind) or name.startswith("_"):
        return False
    return further.source.module in _find_extended(nearer, builder)


def _find_extended(index: ModuleIndex, builder: Builder) -> set[str]:
    """The modular files that the classes of `index` derive from, directly or not."""
    extended: set[str] = set()
    waiting = [index]
    for layer in waiting:
        for name in layer.classes:
            for base in bases_of(builder.bindings, layer, name):
                module = base.symbol.module
                if module in builder.layers - extended:
                    extended.add(module)
                    waiting.append(builder.index(module))
    return extended
