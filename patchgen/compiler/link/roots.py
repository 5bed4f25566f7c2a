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
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.kept import recall
from patchgen.syntax.statements import changed_names


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
        # What no code of the module reads is there for other modules.
        is_helper = bool(reached & own) and not exported & own
        if not is_helper:
            roots += _replace_block(BlockId(base, block.first), list(block.defines), builder)
    return roots


def _find_declared_roots(kind: str, builder: Builder) -> list[BlockId]:
    """What the modular files declare for this output: classes, public functions and constants."""
    plan = builder.naming.plan
    kinds = {declaration.kind for declaration in plan.declarations} or {kind}
    # Functions and constants have no kind of their own.
    main = MODELING if MODELING in kinds else sorted(kinds)[0]
    mixins = _find_own_mixins(plan.declarations)
    roots: list[BlockId] = []
    for layer in reversed(plan.layers):
        module = layer.source.module
        exported = layer.exports or ()
        for block in layer.blocks:
            declaration = plan.declaration(Symbol(module, block.name))
            if declaration is None:
                is_root = kind == main and _is_kept_unused(block)
            elif declaration.symbol in mixins and block.name not in exported:
                # Its members stand in the classes that it was merged into.
                is_root = False
            else:
                is_own = declaration.kind == kind
                is_root = is_own and not _is_replaced(declaration.symbol, builder)
            if is_root:
                roots.append(BlockId(module, block.first))
    return roots


def _is_replaced(symbol: Symbol, builder: Builder) -> bool:
    """Whether a nearer modular file declares a class of this name."""
    return builder.naming.resolve(symbol, symbol.module).key != symbol


def _find_own_mixins(declarations: tuple[Declaration, ...]) -> set[Symbol]:
    """The classes of modular files that are merged into others; a class of a parent is no mixin."""
    merged: set[Symbol] = set()
    for declaration in declarations:
        merged.update(declaration.chain[1:])
    # A class with parents is a variant of its own, whatever else derives from it.
    heirs = {declaration.symbol for declaration in declarations if declaration.parents}
    return merged - heirs


def _is_kept_unused(block: Block) -> bool:
    """Whether a statement of a modular file stays if nothing uses what it binds."""
    if block.kind in ("import", "doc") or block.is_of_exports:
        return False
    if not block.defines:
        return True
    # A private one stays if it does something: `@register` over `def _mine`.
    return _is_public(block) or bool(changed_names(block.text))


def _is_public(block: Block) -> bool:
    """Whether the statement binds a public name by something else than an import."""
    imported = {item.bound for item in block.imports}
    for name in block.defines:
        if name not in imported and not name.startswith("_"):
            return True
    return False


def _replace_block(block_id: BlockId, names: list[str], builder: Builder) -> list[BlockId]:
    """`block_id`, or the blocks of the modular file that replace it.

    Raises PatchgenError PG118 when only some of the names that the block binds are declared again.
    """
    replaced: dict[str, Symbol] = {}
    for name in names:
        symbol = Symbol(block_id.module, name)
        key = builder.naming.resolve(symbol, block_id.module).key
        if key is not None and key.module != block_id.module:
            replaced[name] = key
    if not replaced:
        return [block_id]
    # The statement binds all of its names or none.
    kept = [name for name in names if name not in replaced]
    if kept:
        at = builder.index(block_id.module).source.at(block_id.first)
        declared = next(iter(replaced.values()))
        what = (
            f"the statement binds {', '.join(names)}; "
            f"the modular file declares {declared.name} but not {', '.join(kept)}"
        )
        raise PatchgenError("PG118", at, what, "declare all of them, or none")
    found: list[BlockId] = []
    for key in replaced.values():
        found += builder.block_ids(key)
    return found


def _find_reached_names(index: ModuleIndex) -> set[str]:
    """The names that the exports and the bare statements of a module reach."""
    # The texts of the statements say everything else about them.
    texts = [[block.text, block.lazy_annotations] for block in index.blocks]
    kept = recall("reached", texts)
    if kept.answer is not None:
        return set(kept.answer)
    reached = _reach_names(index)
    kept.keep(sorted(reached))
    return reached


def _reach_names(index: ModuleIndex) -> set[str]:
    """As `_find_reached_names`, computed anew."""
    queue = [*_list_public_names(index), "__all__"]
    for block in index.blocks:
        if not block.defines:
            queue += block.uses
    reached: set[str] = set()
    while queue:
        name = queue.pop()
        if name in reached:
            continue
        reached.add(name)
        for block in index.blocks_that_bind(name):
            queue += block.uses
    return reached


def _list_public_names(index: ModuleIndex) -> list[str]:
    """The names in `__all__`, or else those without an underscore."""
    if index.exports is not None:
        return list(index.exports)
    return [name for name in index.names if not name.startswith("_")]
