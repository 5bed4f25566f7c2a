"""Collect what a flat file holds: everything that its code reaches.

    class TinyMLP(llama.LlamaMLP): ...      TinyMLP   needs   ACT2FN, nn    -> imports
                                            TinyMLP   needs   rotate_half   -> a block of llama
                                            rotate_half needs torch         -> an import

In: a `Builder`, with the plan of a modular file.  Out: for each kind of output, such as "modeling"
or "configuration", the blocks to carry and the names to import.  They start from the roots: what
the modular file declares, and what stays of the module that the output follows, its base.  `order`
orders the blocks, `module` writes the import statements.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from patchgen.compiler.link.collisions import remove_duplicates
from patchgen.compiler.link.flatblock import (
    BlockId,
    Builder,
    Dependency,
    FlatBlock,
)
from patchgen.compiler.link.models import find_asked_models
from patchgen.compiler.plan.bindings import is_kept
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import NameClash
from patchgen.compiler.plan.prefixes import MODELING
from patchgen.compiler.plan.same import is_same_definition
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.kept import recall
from patchgen.syntax.statements import changed_names
from patchgen.syntax.trees import parse_once, statements_within


@dataclass(frozen=True)
class Gathered:
    """The content of one output, unordered.

    `base` is the module that the output follows, if it follows one.  `imports` are the names that
    import statements bind, `siblings` those that come from the output of another kind, each with
    that kind.  `homes` pairs each imported name with the modules whose code reads it.
    """

    kind: str
    base: str | None
    blocks: tuple[FlatBlock, ...]
    imports: tuple[Dependency, ...]
    siblings: tuple[tuple[str, Dependency], ...]
    homes: frozenset[tuple[str, str]] = frozenset()  # (name, module)


def gather_contents(builder: Builder) -> tuple[Gathered, ...]:
    """The content of every output that is declared, and of those that they import from in turn."""
    reached: dict[str, _Closure] = {}
    waiting = [(kind, _find_roots(kind, builder)) for kind in list_kinds(builder)]
    # The list grows: what one output imports from another has to stand in that one.
    for kind, block_ids in waiting:
        closure = reached.setdefault(kind, _Closure(kind, builder, waiting))
        closure.reach(block_ids)
    return tuple(closure.gather() for closure in reached.values())


def list_kinds(builder: Builder) -> tuple[str, ...]:
    """The kinds of output that the modular file itself asks for."""
    plan = builder.plan
    declared = [declaration.kind for declaration in plan.declarations]
    return tuple(dict.fromkeys([*declared, *plan.bases]))


def find_main_kind(builder: Builder) -> str:
    """The kind of output for functions, constants and statements, which have none of their own."""
    kinds = list_kinds(builder)
    return MODELING if MODELING in kinds else min(kinds)


def _find_roots(kind: str, builder: Builder) -> list[BlockId]:
    """What an output holds whatever its other code reads."""
    base = builder.plan.bases.get(kind)
    declared = _find_declared_roots(kind, builder)
    return declared if base is None else [*_find_base_roots(base, builder), *declared]


def _find_base_roots(base: str, builder: Builder) -> list[BlockId]:
    """The blocks of the followed module that stay, or what takes their place.

    A private helper is no root: it stays where other code of the output reads it.
    """
    index = builder.index(base)
    reached = _find_reached_names(index)
    exported = {*_list_public_names(index), "__all__"}
    roots: list[BlockId] = []
    for block in index.blocks:
        if block.kind in ("import", "main"):
            continue
        if builder.naming.acts_on_replaced(base, block):
            continue
        # What no code of the module reads is there for other modules.
        if exported.intersection(block.defines) or not reached.intersection(block.defines):
            roots += _replace_block(block, base, builder)
    return roots


def _find_declared_roots(kind: str, builder: Builder) -> list[BlockId]:
    """What the modular files declare for this output: classes, public functions and constants."""
    plan = builder.plan
    main = find_main_kind(builder)
    merged = set[Symbol]().union(*(declaration.chain[1:] for declaration in plan.declarations))
    roots: list[BlockId] = []
    for layer in reversed(plan.layers):
        module = layer.source.module
        exported = layer.exports or ()
        for block in layer.blocks:
            declaration = plan.declaration(Symbol(module, block.name))
            if declaration is None:
                is_root = kind == main and _is_kept_unused(block)
            else:
                # The members of a mixin stand in the classes that it was merged into; a class with
                # parents is a variant of its own, whatever else derives from it.
                is_mixin = declaration.symbol in merged and not declaration.parents
                is_root = declaration.kind == kind
                is_root &= not is_mixin or block.name in exported
            # A nearer modular file may define the same name.
            if is_root and not builder.naming.is_replaced(module, block):
                roots.append(BlockId(module, block.first))
    return roots


def _is_kept_unused(block: Block) -> bool:
    """Whether a statement of a modular file stays if nothing uses what it binds."""
    is_for_verify = block.name in ("__differs__", "__equal_if__")
    if block.kind in ("import", "doc", "main") or block.is_of_exports or is_for_verify:
        return False
    nodes = statements_within(parse_once(block.text))
    return not all(isinstance(node, _IMPORTING) for node in nodes)


# What an import under a condition is made of: without a use of it, it is most likely left over.
_IMPORTING = (ast.Module, ast.If, ast.Try, ast.ExceptHandler, ast.Import, ast.ImportFrom, ast.Pass)


def _replace_block(block: Block, module: str, builder: Builder) -> list[BlockId]:
    """`block` of the followed module, or the blocks of the modular file that replace it.

    Raises PatchgenError PG118 when only some of the names that the block binds are declared again.
    """
    keys = []
    for name in block.defines:
        key = builder.naming.resolve(Symbol(module, name), module).key
        if key and key.module != module:
            keys.append(key)
    if not keys:
        return [BlockId(module, block.first)]
    # The statement binds all of its names or none.
    there: set[str] = set()
    for key in keys:
        for other in builder.index(key.module).blocks_that_bind(key.name):
            there.update(other.defines)
    kept = [name for name in block.defines if name not in there]
    if kept:
        what = f"the statement binds {', '.join(block.defines)}; "
        what += f"the modular file declares {keys[0].name} but not {', '.join(kept)}"
        at = builder.index(module).source.at(block.first)
        raise PatchgenError("PG118", at, what, "declare all of them, or none")
    block_ids: list[BlockId] = []
    for key in keys:
        block_ids += builder.block_ids(key)
    return block_ids


def _find_reached_names(index: ModuleIndex) -> set[str]:
    """The names that the exports and the bare statements of a module reach."""
    # The texts of the statements say everything else about them.
    texts = [block.text for block in index.blocks]
    kept = recall("reached", texts)
    if kept.answer is not None:
        return set(kept.answer)
    queue = [*_list_public_names(index), "__all__"]
    for block in index.blocks:
        if not block.defines:
            queue += block.uses
    reached: set[str] = set()
    for name in queue:
        if name not in reached:
            reached.add(name)
            for block in index.blocks_that_bind(name):
                queue += block.uses
    kept.keep(sorted(reached))
    return reached


def _list_public_names(index: ModuleIndex) -> list[str]:
    """What is for users: by `__all__`, or all but layers and tables that other code here reads."""
    if index.exports is not None:
        return list(index.exports)
    read: set[str] = set()
    for block in index.blocks:
        read.update({*block.uses} - {*block.defines})
    inner: set[str] = set()
    for block in index.blocks:
        if block.kind in ("class", "assign"):
            inner |= read.intersection(block.defines)
    return [name for name in index.names if not name.startswith("_") and name not in inner]


class _Closure:
    """The blocks and imports that one output reaches, from its roots on.

    Blocks that it needs and that belong to the output of another kind go to `waiting`.
    """

    def __init__(
        self, kind: str, builder: Builder, waiting: list[tuple[str, list[BlockId]]]
    ) -> None:
        self._kind = kind
        self._builder = builder
        self._waiting = waiting
        self._bindings = builder.bindings
        self.blocks: dict[BlockId, FlatBlock] = {}
        self.imports: dict[str, Dependency] = {}
        self.siblings: dict[str, tuple[str, Dependency]] = {}
        self.homes: set[tuple[str, str]] = set()

    def gather(self) -> Gathered:
        """What has been reached, each text once."""
        return Gathered(
            kind=self._kind,
            base=self._builder.plan.bases.get(self._kind),
            blocks=remove_duplicates(tuple(self.blocks.values()), self.imports, self._builder),
            imports=tuple(self.imports.values()),
            siblings=tuple(self.siblings.values()),
            homes=frozenset(self.homes),
        )

    def reach(self, queue: list[BlockId]) -> None:
        """Add the queued blocks, and what they need in turn, until nothing is new.

        A block needs the blocks of the names that it reads, every statement that changes these, and
        the models that AutoModel builds for it.
        """
        while queue:
            # The queue grows while it is read.
            for block_id in queue:
                if block_id not in self.blocks:
                    block = self.blocks[block_id] = self._builder.block(block_id)
                    for dependency in block.dependencies:
                        queue += self._resolve(dependency, block)
            # Only what is carried already says which statements change it.
            needed = [*self._find_changing(), *self._find_models()]
            queue = [block_id for block_id in needed if block_id not in self.blocks]

    def _find_models(self) -> Iterator[BlockId]:
        """The models of sources that AutoModel builds for what is carried."""
        naming = self._builder.naming
        for module in naming.plan.prefixes:
            for name in sorted(find_asked_models(tuple(self.blocks.values()), self._builder)):
                # A model that the modular file declares anew has its place.
                symbol = naming.resolve(Symbol(module, name), module).key
                if symbol is None or self._builder.index(module).definition(name) is None:
                    continue
                # `LlamaModel_KV` over it is the model of the file; `LlamaEmbedder` is another one.
                over_it = naming.plan.heirs_of(symbol)
                heirs = [heir for heir in over_it if heir.name.startswith(name)]
                yield from self._builder.block_ids(heirs[0] if len(heirs) == 1 else symbol)

    def _find_changing(self) -> Iterator[BlockId]:
        """The statements of the blocks' modules that change what is carried.

        TABLE = {}                      carried, because a block reads it
        TABLE["a"] = f                  so this is carried, too

        One that binds nothing, as this, is also carried where the table is imported and a block of
        its module reads it.
        """
        bound: dict[str, set[str]] = {}
        read: dict[str, set[str]] = {}
        for carried in self.blocks.values():
            for rewritten in carried.rewritten:
                module = rewritten.symbol.module
                source = self._builder.source_block(BlockId(module, rewritten.first))
                bound.setdefault(module, set()).update(source.defines)
                read.setdefault(module, set()).update(source.uses)
        naming = self._builder.naming
        followed = {*self._builder.layers, *naming.plan.bases.values()}
        for module, names in bound.items():
            index = self._builder.index(module)
            is_helper = self._bindings.flatten_scope.is_own(module) and module not in followed
            for block in index.blocks:
                changed = changed_names(block.text)
                # What acts in a helper of the user's acts on what is carried of it, or on all.
                if is_helper and not block.defines and block.kind in ("guard", "other"):
                    own = set(filter(index.definition, block.uses))
                    if own <= names:
                        yield BlockId(module, block.first)
                # Nearly no statement changes anything.
                if not changed:
                    continue
                binds_or_replaced = block.defines or naming.acts_on_replaced(module, block)
                concerned = names if binds_or_replaced else names | read[module]
                if changed & concerned and self._belongs_here(module, block):
                    yield BlockId(module, block.first)

    def _belongs_here(self, home: str, block: Block) -> bool:
        """Whether this output carries a statement, and not the output of another kind."""
        naming = self._builder.naming
        if naming.plan.declaration(Symbol(home, block.name)) is not None:
            return False  # a class is reached by its name
        kinds = {naming.resolve(Symbol(home, name), home).kind for name in block.defines}
        return kinds <= {None, self._kind}

    def _resolve(self, dependency: Dependency, block: FlatBlock) -> tuple[BlockId, ...]:
        """The blocks that define the name of `dependency`.

        A name that is imported, or that the output of another kind defines, is only recorded.
        """
        builder = self._builder
        name = dependency.name
        symbol = dependency.symbol
        if name == builder.naming.aside(symbol):
            return builder.block_ids(symbol)
        resolution = builder.naming.resolve(symbol, dependency.home)
        kind = resolution.kind
        definition = resolution.key
        if definition is None:
            return self._record_import(dependency, block)
        # A class stands in one output, and the others import it from there.
        if kind is not None and kind != self._kind:
            if name not in self.siblings:
                self._waiting.append((kind, [*builder.block_ids(definition)]))
            self.siblings[name] = (kind, dependency)
            return ()
        if self._bindings.env.path(definition.module) is None:
            home = builder.index(dependency.home)
            item = home.imported(name)
            at = home.source.at(item.line, item.column) if item else block.place
            # There is no such file: this raises PG101 at the import.
            self._bindings.env.index(definition.module, at)
        return builder.block_ids(definition)

    def _record_import(self, dependency: Dependency, block: FlatBlock) -> tuple[BlockId, ...]:
        """Record an imported name, or raise PG401; returns the guarded blocks that import it.

        from torch import nn                        recorded
        if is_flash_available(): import flash       not recorded: the block is carried instead
        """
        if dependency.symbol in self._builder.naming.apart:
            self._refuse_fixed_import(dependency, block)
            self.imports[dependency.name] = dependency
            return ()
        dependency = self._prefer_kept_import(self._find_home(dependency))
        dependency = self._prefer_own_guard(dependency)
        module, importing = self._find_import_blocks(dependency.home, dependency.name)
        guards = tuple(
            BlockId(module, other.first) for other in importing if other.kind != "import"
        )
        # The guarded blocks bind the name: an import statement would be one too many.
        if len(guards) == len(importing):
            return guards
        for rewritten in block.rewritten:
            if dependency.name in rewritten.dependencies:
                self.homes.add((dependency.name, rewritten.symbol.module))
        known = self.imports.setdefault(dependency.name, dependency)
        if not is_same_definition(known.symbol, dependency.symbol, self._builder.naming):
            what = f"{dependency.name} is {known.symbol} for {known.home} "
            what += f"and {dependency.symbol} for {dependency.home}"
            hint = "import one of them under another name"
            lesser = self._builder.naming.lesser(known.symbol, dependency.symbol)
            raise NameClash(lesser, block.place, what, hint)
        return guards

    def _refuse_fixed_import(self, dependency: Dependency, block: FlatBlock) -> None:
        """Raise PG401 where what has to be imported under another name cannot be.

        if is_kernels_available(): import kernels       stands as it is
        import xml.sax                                  binds `xml`, and `as` would bind `xml.sax`
        """
        index = self._builder.index(dependency.home)
        for source in index.blocks:
            for item in source.imports:
                is_submodule = item.binds_package and "." in item.module
                can_be_renamed = source.kind == "import" and not is_submodule
                means_it = self._bindings.meaning(index, item.bound) == dependency.symbol
                if means_it and not can_be_renamed:
                    what = f"{item.bound} is two things in the flat file"
                    hint = "import one of them under another name"
                    raise PatchgenError("PG401", block.place, what, hint)

    def _find_import_blocks(self, module: str, name: str) -> tuple[str, tuple[Block, ...]]:
        """The statements that import `name`, and the module in which they stand.

        They are those of `module`, or of the flattened one from which it imports what that one
        imports under a guard.

            module          from .fast import act
            fast.py         try: from kernels import act        these count
        """
        index = self._builder.index(module)
        importing = index.blocks_that_import(name)
        item = index.imported(name)
        if item is not None and not _has_guard(importing):
            source = self._bindings.imported_symbol(index, item)
            origin = source.module
            flattens = self._bindings.flatten_scope.flattens(origin)
            # Under another name, the guarded statement would bind what nobody reads.
            if source.name == name and flattens and self._bindings.env.path(origin):
                home, there = self._find_import_blocks(origin, name)
                if _has_guard(there):
                    return home, there
        return module, importing

    def _find_home(self, dependency: Dependency) -> Dependency:
        """`dependency`, from the parent that imports it where its module reads `parent.name`.

        llama.ACT2FN                    of a modular file: the import of it stands in llama
        """
        if self._builder.index(dependency.home).binders(dependency.name):
            return dependency
        for parent in self._builder.plan.parents:
            index = self._builder.index(parent)
            is_there = index.blocks_that_import(dependency.name)
            if is_there and self._bindings.meaning(index, dependency.name) == dependency.symbol:
                return replace(dependency, home=parent)
        return dependency

    def _prefer_own_guard(self, dependency: Dependency) -> Dependency:
        """`dependency`, from the modular file where that replaces what the parent's guard binds.

        parent      if is_flash_available():
                        from flash import act
                        FAST = True
        modular     try:
                        from flash import act
                        FAST = True
                    except ImportError:
                        FAST = False
        """
        naming = self._builder.naming
        index = self._builder.index(dependency.home)
        bound: set[str] = set()
        for block in index.blocks_that_import(dependency.name):
            bound.update(block.defines)
        for layer in naming.plan.layers:
            item = layer.imported(dependency.name)
            if item is None or not any(map(layer.definition, bound)):
                continue
            if naming.bindings.imported_symbol(layer, item) == dependency.symbol:
                return replace(dependency, home=layer.source.module)
        return dependency

    def _prefer_kept_import(self, dependency: Dependency) -> Dependency:
        """`dependency`, from the modular file where that has an import of the name that is kept."""
        naming = self._builder.naming
        for layer in naming.plan.layers:
            item = layer.imported(dependency.name)
            # Only a relative import can be marked to be kept.
            if item is not None and item.level:
                symbol = naming.bindings.imported_symbol(layer, item)
                if is_kept(symbol):
                    return replace(dependency, symbol=symbol, home=layer.source.module)
        return dependency


def _has_guard(importing: Iterable[Block]) -> bool:  # `try:` or `if` over the import
    return any(block.kind != "import" for block in importing)
