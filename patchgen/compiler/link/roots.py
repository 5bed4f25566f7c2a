"""Find the blocks that an output holds in any case.

    modeling_llama.py    class LlamaModel: ...        exported, a root
                         def rotate_half(x): ...      carried only if something still reads it
    modular_tiny.py      class TinyMLP(...): ...      declared, a root

In: a plan.  Out: the blocks of the followed module that stay whatever the change, and those that
the modular files declare.
"""

from __future__ import annotations

from patchgen.compiler.link.flatblock import BlockId, Builder
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.kinds import MODELING
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import PatchgenError
from patchgen.syntax.blocks import Block, ModuleIndex


def find_roots(kind: str, base: str | None, builder: Builder) -> list[BlockId]:
    """The blocks that the output of `kind`, which follows the module `base`, begins with."""
    return [*_find_base_roots(base, builder), *_find_declared_roots(kind, builder)]


def _find_base_roots(base: str | None, builder: Builder) -> list[BlockId]:
    """The blocks of the followed module that stay.

    A private helper that other code of the module reads stays only if the changed code reads it.
    """
    if base is None:
        return []
    index = builder.index(base)
    reached = _find_reached_names(index)
    exported = {*_list_public_names(index), "__all__"}
    roots: list[BlockId] = []
    for block in index.blocks:
        if block.kind == "import":
            continue
        own = set(block.defines)
        if not own or exported & own or not reached & own:
            roots += _replace_block(BlockId(base, block.first), list(block.defines), builder)
    return roots


def _find_declared_roots(kind: str, builder: Builder) -> list[BlockId]:
    """What the modular files declare for this output: classes, public functions and constants."""
    plan = builder.naming.plan
    kinds = {declaration.kind for declaration in plan.declarations} or {kind}
    main = MODELING if MODELING in kinds else sorted(kinds)[0]
    mixins = _find_own_mixins(plan.declarations)
    roots: list[BlockId] = []
    for layer in reversed(plan.layers):
        module = layer.source.module
        for block in layer.blocks:
            symbol = Symbol(module, block.name)
            declaration = plan.declaration(symbol)
            if declaration is not None:
                is_replaced = builder.naming.resolve(symbol, module).key != symbol
                is_merged_away = symbol in mixins and block.name not in (layer.exports or ())
                is_root = declaration.kind == kind and not is_replaced and not is_merged_away
            else:
                # A helper goes where it is used; one that nothing uses goes to the main output.
                is_wanted = _is_public(block) or _acts(layer, block, builder)
                is_root = kind == main and is_wanted
            if is_root:
                roots.append(BlockId(module, block.first))
    return roots


def _find_own_mixins(declarations: tuple[Declaration, ...]) -> set[Symbol]:
    """The classes of modular files that are merged into others; a class of a parent is no mixin."""
    heirs = {declaration.symbol for declaration in declarations if declaration.parents}
    merged = {symbol for declaration in declarations for symbol in declaration.chain[1:]}
    return merged - heirs


def _is_public(block: Block) -> bool:
    """Whether a statement of a modular file binds a public name, or none at all."""
    if block.kind in ("import", "doc") or block.is_of_exports:
        return False
    if not block.defines:
        return True
    imported = {item.bound for item in block.imports}
    return any(name not in imported and not name.startswith("_") for name in block.defines)


def _acts(layer: ModuleIndex, block: Block, builder: Builder) -> bool:
    """Whether a private statement of a modular file does something.

    `@register` over `def _mine`.
    """
    if block.kind in ("import", "doc") or block.is_of_exports:
        return False
    return not builder.changes.is_pure(layer, block)


def _replace_block(unit: BlockId, names: list[str], builder: Builder) -> tuple[BlockId, ...]:
    """`unit`, or the blocks of the modular file that replace it.

    Raises PatchgenError PG118 when only some of the names that the block binds are declared again.
    """
    keys = [builder.naming.resolve(Symbol(unit.module, name), unit.module).key for name in names]
    others = [key for key in keys if key is not None and key.module != unit.module]
    if not others:
        return (unit,)
    if len(others) < len(names):
        kept = [name for name, key in zip(names, keys, strict=True) if key not in others]
        at = builder.index(unit.module).source.at(unit.first)
        what = (
            f"the statement binds {', '.join(names)}; "
            f"the modular file declares {others[0].name} but not {', '.join(kept)}"
        )
        raise PatchgenError("PG118", at, what, "declare all of them, or none")
    return tuple(replacing for key in others for replacing in builder.units(key))


def _find_reached_names(index: ModuleIndex) -> set[str]:
    """The names that the exports and the bare statements of a module reach."""
    bare = [use for block in index.blocks if not block.defines for use in block.uses]
    reached: set[str] = set()
    queue = [*_list_public_names(index), "__all__", *bare]
    while queue:
        name = queue.pop()
        if name in reached:
            continue
        reached.add(name)
        for block in index.blocks:
            if name in block.defines:
                queue += block.uses
    return reached


def _list_public_names(index: ModuleIndex) -> list[str]:
    """The names in `__all__`, or else those without an underscore."""
    if index.exports is not None:
        return list(index.exports)
    return [name for name in index.names if not name.startswith("_")]
