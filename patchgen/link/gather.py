"""What a flat file holds: the closure of what its names reach, after rewriting.

In: a plan and a `Builder`.  Out: for one kind of output, the blocks to carry and the names to import.  Order is decided
in `order`, import statements in `imports`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from patchgen.errors import PatchgenError
from patchgen.link.flatblock import Builder, FlatBlock, Need, Unit
from patchgen.plan.kinds import MODELING
from patchgen.plan.model import Symbol
from patchgen.source.blocks import Block, ModuleIndex
from patchgen.source.scopes import bound_names


@dataclass(frozen=True)
class Gathered:
    """The content of one output, unordered.

    `base` is the module that the output follows, if it follows one.  `imports` are needs met by import statements,
    `siblings` those met by the output of another kind.
    """

    kind: str
    base: str | None
    blocks: tuple[FlatBlock, ...]
    imports: tuple[Need, ...]
    siblings: tuple[tuple[str, Need], ...]


def gather(kind: str, requested: tuple[Symbol, ...], builder: Builder) -> Gathered:
    """The content of the output of `kind`; `requested` are symbols that other outputs import from it.

    Raises PatchgenError PG401 where two different things would have one name.
    """
    base = builder.naming.plan.bases.get(kind)
    roots = [*_base_roots(base, builder), *_declared_roots(kind, builder)]
    for symbol in requested:
        roots += builder.units(symbol)
    reached = _Closure(kind, builder)
    reached.follow(roots)
    blocks = _one_of_each(reached.blocks(), reached.imports)
    return Gathered(kind, base, blocks, tuple(reached.imports.values()), tuple(reached.siblings.values()))


def kinds_of(builder: Builder) -> tuple[str, ...]:
    """The outputs that the modular file itself asks for."""
    return tuple(dict.fromkeys(declaration.kind for declaration in builder.naming.plan.declarations))


class _Closure:
    def __init__(self, kind: str, builder: Builder) -> None:
        self._kind, self._builder = kind, builder
        self._seen: dict[Unit, FlatBlock] = {}
        self.imports: dict[str, Need] = {}
        self.siblings: dict[str, tuple[str, Need]] = {}

    def blocks(self) -> tuple[FlatBlock, ...]:
        return tuple(self._seen.values())

    def follow(self, roots: Iterable[Unit]) -> None:
        queue = list(roots)
        while queue:
            unit = queue.pop(0)
            if unit in self._seen:
                continue
            block = self._builder.block(unit)
            self._seen[unit] = block
            for need in block.needs:
                queue += self._meet(need, block)

    def _meet(self, need: Need, block: FlatBlock) -> tuple[Unit, ...]:
        """The units that meet `need`; imports and other outputs are only noted."""
        place = self._builder.naming.place(need.symbol, need.home)
        if place.key is None:
            return self._import(need, block)
        if place.kind is not None and place.kind != self._kind:
            self.siblings[need.name] = (place.kind, need)
            return ()
        units = self._builder.units(place.key)
        return units

    def _import(self, need: Need, block: FlatBlock) -> tuple[Unit, ...]:
        home = self._builder.index(need.home)
        guards = [b for b in home.blocks if b.kind != "import" and any(i.bound == need.name for i in b.imports)]
        if not any(b.kind == "import" and any(i.bound == need.name for i in b.imports) for b in home.blocks):
            return tuple(Unit(need.home, guard.first) for guard in guards)
        known = self.imports.setdefault(need.name, need)
        if not known.symbol.is_same(need.symbol):
            known_symbol, symbol = self._resolved(known), self._resolved(need)
            if not known_symbol.is_same(symbol):
                at = block.pieces[0].at(1, 0)
                what = f"{need.name} is {known_symbol} for {known.home} and {symbol} for {need.home}"
                raise PatchgenError("PG401", at, what, "import one of them under another name")
        return tuple(Unit(need.home, guard.first) for guard in guards)

    def _resolved(self, need: Need) -> Symbol:
        """The symbol with every re-export of transformers followed, to compare two ways of importing one thing."""
        env, symbol = self._builder.naming.bindings.env, need.symbol
        for _ in range(8):
            if not symbol.name or env.path(symbol.module) is None or not symbol.module.startswith("transformers"):
                break
            index = self._builder.index(symbol.module)
            item = None if index.definition(symbol.name) else index.imported(symbol.name)
            if item is None:
                break
            symbol = self._builder.naming.bindings.imported_symbol(index, item)
        return symbol


def _base_roots(base: str | None, builder: Builder) -> list[Unit]:
    """The blocks of the followed module that stay whatever the change: all but those that only old text reached."""
    if base is None:
        return []
    index = builder.index(base)
    names = _reached_names(index)
    public = index.exports if index.exports is not None else [n for n in index.names if n[0] != "_"]
    exported = {*public, "__all__"}
    roots: list[Unit] = []
    for block in index.blocks:
        if block.kind == "import":
            continue
        if not block.defines:
            _refuse_late_attributes(block, index, builder)
        own = [name for name in block.defines]
        if not own or exported & set(own) or not names & set(own):
            roots += _in_place(Unit(base, block.first), own, builder)
    return roots


def _refuse_late_attributes(block: Block, index: ModuleIndex, builder: Builder) -> None:
    """`Parent.size = 1` below the class would, in the flat file, undo what the modular file's class says of `size`.

    Raises PatchgenError PG121.
    """
    for node in ast.walk(ast.parse(block.text)):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
            continue
        if not isinstance(node.value, ast.Name) or index.definition(node.value.id) is None:
            continue
        home = index.source.module
        key = builder.naming.place(Symbol(home, node.value.id), home).key
        declared = builder.index(key.module).definition(key.name) if key and key.module != home else None
        if key and declared and node.attr in bound_names(_body(declared.text)):
            what = f"{home} sets {node.value.id}.{node.attr} after the class, which {key.module} declares anew"
            hint = f"declare {node.attr} in no class, or set it in the modular file in the same way"
            raise PatchgenError("PG121", index.source.at(block.first + node.lineno - 1, node.col_offset), what, hint)


def _body(text: str) -> list[ast.stmt]:
    return [statement for node in ast.parse(text).body if isinstance(node, ast.ClassDef) for statement in node.body]


def _in_place(unit: Unit, names: list[str], builder: Builder) -> tuple[Unit, ...]:
    """`unit`, or the units of the modular file that take its place.

    Raises PatchgenError PG118 when only some of the names that the block binds are declared anew.
    """
    replaced = [builder.naming.place(Symbol(unit.module, name), unit.module).key for name in names]
    others = [key for key in replaced if key is not None and key.module != unit.module]
    if not others:
        return (unit,)
    if len(others) < len(names):
        kept = ", ".join(n for n, key in zip(names, replaced, strict=True) if key not in others)
        at = builder.index(unit.module).source.at(unit.first)
        what = f"the statement binds {', '.join(names)}; the modular file declares {others[0].name} but not {kept}"
        raise PatchgenError("PG118", at, what, "declare all of them, or none")
    return tuple(u for key in others for u in builder.units(key))


def _reached_names(index: ModuleIndex) -> set[str]:
    """The names of a module that its exports and its bare statements reach, in the module as it stands."""
    exported = index.exports if index.exports is not None else [name for name in index.names if name[0] != "_"]
    bare = [use for block in index.blocks if not block.defines for use in block.uses]
    reached: set[str] = set()
    queue = [*exported, "__all__", *bare]
    while queue:
        name = queue.pop()
        if name in reached:
            continue
        reached.add(name)
        queue += [use for block in index.blocks if name in block.defines for use in block.uses]
    return reached


def _declared_roots(kind: str, builder: Builder) -> list[Unit]:
    """What the modular files declare for this output: their classes, and their public functions and constants."""
    plan = builder.naming.plan
    kinds = {declaration.kind for declaration in plan.declarations} or {kind}
    main = MODELING if MODELING in kinds else sorted(kinds)[0]
    # A mixin of the file's own lives on in the classes that it was merged into.
    mixins = {symbol for declaration in plan.declarations for symbol in declaration.chain[1:]}
    roots: list[Unit] = []
    for layer in reversed(plan.layers):
        for block in layer.blocks:
            symbol = Symbol(layer.source.module, block.name)
            declaration = plan.declaration(symbol)
            if declaration is not None:
                wanted = declaration.kind == kind and builder.naming.place(symbol, symbol.module).key == symbol
                wanted = wanted and (symbol not in mixins or block.name in (layer.exports or ()))
            else:
                # A helper goes where it is used; one that nothing uses goes where most of the file goes.
                wanted = kind == main and _stands_alone(block)
            if wanted:
                roots.append(Unit(layer.source.module, block.first))
    return roots


def _stands_alone(block: Block) -> bool:
    """Whether a statement of a modular file is carried without being asked for: public names, and bare statements."""
    if block.kind in ("import", "doc") or block.name == "__all__":
        return False
    imported = {item.bound for item in block.imports}
    own = [name for name in block.defines if name not in imported]
    return any(name[0] != "_" for name in own) if block.defines else True


def _modular_first(blocks: list[FlatBlock]) -> FlatBlock:
    """The block that a modular file declares, where one of `blocks` is such: that is where the reader can act."""
    return min(blocks, key=lambda block: ".modular_" not in f".{block.unit.module}")


def _one_of_each(blocks: tuple[FlatBlock, ...], imports: dict[str, Need]) -> tuple[FlatBlock, ...]:
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
