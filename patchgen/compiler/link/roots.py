"""From where the content of a flat file is reached.

In: a plan.  Out: the blocks that are there whatever the rest: those of the followed module that the change does not
make unreachable, and those that the modular files declare.
"""

from __future__ import annotations

from patchgen.compiler.link.flatblock import BlockId, Builder
from patchgen.compiler.plan.kinds import MODELING
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import PatchgenError
from patchgen.syntax.blocks import Block, ModuleIndex


def roots(kind: str, base: str | None, builder: Builder) -> list[BlockId]:
    """The units that the output of `kind`, which follows the module `base`, begins with."""
    return [*_base_roots(base, builder), *_declared_roots(kind, builder)]


def _base_roots(base: str | None, builder: Builder) -> list[BlockId]:
    """The blocks of the followed module that stay whatever the change: all but those that only old text reached."""
    if base is None:
        return []
    index = builder.index(base)
    names = _reached_names(index)
    public = index.exports if index.exports is not None else [n for n in index.names if n[0] != "_"]
    exported = {*public, "__all__"}
    roots: list[BlockId] = []
    for block in index.blocks:
        if block.kind == "import":
            continue
        own = list(block.defines)
        if not own or exported & set(own) or not names & set(own):
            roots += _in_place(BlockId(base, block.first), own, builder)
    return roots


def _declared_roots(kind: str, builder: Builder) -> list[BlockId]:
    """What the modular files declare for this output: their classes, and their public functions and constants."""
    plan = builder.naming.plan
    kinds = {declaration.kind for declaration in plan.declarations} or {kind}
    main = MODELING if MODELING in kinds else sorted(kinds)[0]
    # A mixin of the file's own lives on in the classes that it was merged into; a class of a parent is no mixin.
    heirs = {declaration.symbol for declaration in plan.declarations if declaration.parents}
    mixins = {
        symbol for declaration in plan.declarations for symbol in declaration.chain[1:]
    } - heirs
    roots: list[BlockId] = []
    for layer in reversed(plan.layers):
        for block in layer.blocks:
            symbol = Symbol(layer.source.module, block.name)
            declaration = plan.declaration(symbol)
            if declaration is not None:
                wanted = (
                    declaration.kind == kind
                    and builder.naming.resolve(symbol, symbol.module).key == symbol
                )
                wanted = wanted and (symbol not in mixins or block.name in (layer.exports or ()))
            else:
                # A helper goes where it is used; one that nothing uses goes where most of the file goes.
                wanted = kind == main and (_stands_alone(block) or _acts(layer, block, builder))
            if wanted:
                roots.append(BlockId(layer.source.module, block.first))
    return roots


def _stands_alone(block: Block) -> bool:
    """Whether a statement of a modular file is carried without being asked for: public names, and bare statements."""
    if block.kind in ("import", "doc") or block.is_of_exports:
        return False
    imported = {item.bound for item in block.imports}
    own = [name for name in block.defines if name not in imported]
    return any(name[0] != "_" for name in own) if block.defines else True


def _acts(layer: ModuleIndex, block: Block, builder: Builder) -> bool:
    """Whether a private statement of a modular file does something: `@register` over `def _mine`."""
    return (
        block.kind not in ("import", "doc")
        and not block.is_of_exports
        and not builder.changes.is_pure(layer, block)
    )


def _in_place(unit: BlockId, names: list[str], builder: Builder) -> tuple[BlockId, ...]:
    """`unit`, or the units of the modular file that take its place.

    Raises PatchgenError PG118 when only some of the names that the block binds are declared anew.
    """
    replaced = [
        builder.naming.resolve(Symbol(unit.module, name), unit.module).key for name in names
    ]
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
    exported = (
        index.exports
        if index.exports is not None
        else [name for name in index.names if name[0] != "_"]
    )
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
