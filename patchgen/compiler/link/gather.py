"""What a flat file holds: the closure of what its names reach, after rewriting.

In: a plan and a `Builder`.  Out: for one kind of output, the blocks to carry and the names to import.  Order is
decided in `order`, import statements in `imports`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from patchgen.compiler.link.collisions import remove_duplicates
from patchgen.compiler.link.equivalence import is_same_definition
from patchgen.compiler.link.execution import executed_modules, is_followed, with_packages
from patchgen.compiler.link.flatblock import BlockId, Builder, Dependency, FlatBlock
from patchgen.compiler.link.roots import roots
from patchgen.compiler.plan.bindings import is_kept
from patchgen.compiler.plan.changes import own_symbols
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import PatchgenError
from patchgen.syntax.blocks import Block, ModuleIndex


@dataclass(frozen=True)
class Gathered:
    """The content of one output, unordered.

    `base` is the module that the output follows, if it follows one.  `imports` are needs met by import statements,
    `homes` the modules whose code reads such a name, `siblings` are needs met by the output of another kind.
    """

    kind: str
    base: str | None
    blocks: tuple[FlatBlock, ...]
    imports: tuple[Dependency, ...]
    siblings: tuple[tuple[str, Dependency], ...]
    homes: frozenset[tuple[str, str]] = frozenset()  # (name, module)


def gather(kind: str, requested: tuple[Symbol, ...], builder: Builder) -> Gathered:
    """The content of the output of `kind`; `requested` are symbols that other outputs import from it.

    Raises PatchgenError PG401 where two different things would have one name.
    """
    base = builder.naming.plan.bases.get(kind)
    units = roots(kind, base, builder)
    for symbol in requested:
        units += builder.units(symbol)
    reached = _Closure(kind, builder)
    reached.follow(units)
    blocks = remove_duplicates(reached.blocks(), reached.imports, builder)
    imports, siblings = tuple(reached.imports.values()), tuple(reached.siblings.values())
    return Gathered(kind, base, blocks, imports, siblings, frozenset(reached.homes))


def list_kinds(builder: Builder) -> tuple[str, ...]:
    """The outputs that the modular file itself asks for."""
    plan = builder.naming.plan
    return tuple(
        dict.fromkeys([*(declaration.kind for declaration in plan.declarations), *plan.bases])
    )


class _Closure:
    def __init__(self, kind: str, builder: Builder) -> None:
        self._kind, self._builder = kind, builder
        self._seen: dict[BlockId, FlatBlock] = {}
        self.imports: dict[str, Dependency] = {}
        self.siblings: dict[str, tuple[str, Dependency]] = {}
        self.homes: set[tuple[str, str]] = set()

    def blocks(self) -> tuple[FlatBlock, ...]:
        return tuple(self._seen.values())

    def follow(self, units: Iterable[BlockId]) -> None:
        """Everything that `units` need, and every statement that changes what is carried."""
        queue = list(units)
        while queue:
            self._follow(queue)
            queue = [unit for unit in self._changing() if unit not in self._seen]

    def _follow(self, queue: list[BlockId]) -> None:
        while queue:
            unit = queue.pop(0)
            if unit in self._seen:
                continue
            block = self._builder.block(unit)
            self._seen[unit] = block
            for need in block.needs:
                queue += self._meet(need, block)

    def _changing(self) -> Iterator[BlockId]:
        """The statements, of every module that runs when these are imported, that change what is carried.

        One that changes nothing of any such file, as `os.environ["X"] = "1"` does, is done for those who come later.
        """
        carried = {
            Symbol(u.module, name)
            for u in self._seen
            for name in self._builder.source_block(u).defines
        }
        read = {unit.module for unit in self._seen}
        for module in self._running():
            index = self._builder.index(module)
            # A package that is only passed is still there, and does with others what it did.
            is_passed = module not in read and index.source.path.endswith("__init__.py")
            for block in index.blocks:
                if block.kind in ("import", "doc") or block.is_for_types:
                    continue
                change = self._builder.changes.of(index, block)
                own = own_symbols(index, block)
                acts = change.concerns_only_outside(own) and not is_passed
                if self._is_here(index, block) and (acts or (change.symbols - own) & carried):
                    yield BlockId(module, block.first)

    def _running(self) -> tuple[str, ...]:
        """The modules that something is carried from, and those of the same project that they import."""
        bindings = self._builder.naming.bindings
        home = self._builder.naming.plan.modular.source.module
        modules = [*(unit.module for unit in self._seen), *with_packages(home)]
        read = {unit.module for unit in self._seen} | {home}
        found = {
            module: None for module in modules if module in read or is_followed(module, bindings)
        }
        queue = list(found)
        while queue:
            index = self._builder.index(queue.pop())
            for module in (
                module
                for block in index.blocks
                for module in executed_modules(index, block, bindings)
            ):
                if module not in found and is_followed(module, bindings):
                    found[module] = None
                    queue.append(module)
        return tuple(found)

    def _is_here(self, index: ModuleIndex, block: Block) -> bool:
        """Whether a statement belongs into this output, and not where a class of another kind that it binds does."""
        home = index.source.module
        if self._builder.naming.plan.declaration(Symbol(home, block.name)) is not None:
            return False  # reached by its name, or declared anew by a nearer file
        kinds = {
            self._builder.naming.resolve(Symbol(home, name), home).kind for name in block.defines
        }
        return not kinds - {None, self._kind}

    def _meet(self, need: Dependency, block: FlatBlock) -> tuple[BlockId, ...]:
        """The units that meet `need`; imports and other outputs are only noted."""
        place = self._builder.naming.resolve(need.symbol, need.home)
        if place.key is None:
            return self._import(need, block)
        if place.kind is not None and place.kind != self._kind:
            self.siblings[need.name] = (place.kind, need)
            return ()
        bindings = self._builder.naming.bindings
        if bindings.env.path(place.key.module) is None:
            home = self._builder.index(need.home)
            item = home.imported(need.name)
            at = home.source.at(item.line, item.column) if item else block.pieces[0].at(1, 0)
            bindings.env.index(place.key.module, at)  # raises PG101 where the import stands
        return self._builder.units(place.key)

    def _kept(self, need: Dependency) -> Dependency:
        """`need`, met by the modular file where it has an import of that name that stays as it is."""
        naming = self._builder.naming
        for layer in naming.plan.layers:
            item = layer.imported(need.name)
            if item is not None and item.level:
                symbol = naming.bindings.imported_symbol(layer, item)
                if is_kept(symbol):
                    return replace(need, symbol=symbol, home=layer.source.module)
        return need

    def _import(self, need: Dependency, block: FlatBlock) -> tuple[BlockId, ...]:
        need = self._kept(need)
        home = self._builder.index(need.home)
        guards = [
            b
            for b in home.blocks
            if b.kind != "import" and any(i.bound == need.name for i in b.imports)
        ]
        if not any(
            b.kind == "import" and any(i.bound == need.name for i in b.imports) for b in home.blocks
        ):
            return tuple(BlockId(need.home, guard.first) for guard in guards)
        self.homes |= {
            (need.name, p.symbol.module) for p in block.pieces if need.name in p.dependencies
        }
        known = self.imports.setdefault(need.name, need)
        if not is_same_definition(known.symbol, need.symbol, self._builder.naming.bindings):
            at = block.pieces[0].at(1, 0)
            what = (
                f"{need.name} is {known.symbol} for {known.home} and {need.symbol} for {need.home}"
            )
            raise PatchgenError("PG401", at, what, "import one of them under another name")
        return tuple(BlockId(need.home, guard.first) for guard in guards)
