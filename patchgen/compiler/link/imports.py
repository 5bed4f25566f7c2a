"""Write the import statements of a flat file: what its blocks need, absolute, each name once.

    from ..llama.modeling_llama import rotate_half   (used, and carried as a block: no import)
    from ...activations import ACT2FN, gelu    ->    from transformers.activations import ACT2FN

A statement that is needed whole keeps its text and its comments.  The formatter sorts and merges.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.compiler.link.flatblock import BlockId, Builder, Dependency
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.plan.prefixes import output_name
from patchgen.syntax.blocks import Block, Import, ModuleIndex
from patchgen.syntax.errors import Location


@dataclass(frozen=True, slots=True)
class NeededImport:
    """The names `items` of an import statement, `block_id`, and their import in the flat file."""

    block_id: BlockId
    items: tuple[Import, ...]
    text: str


def find_needed_imports(gathered: Gathered, builder: Builder) -> tuple[NeededImport, ...]:
    """What the blocks of `gathered` need of the import statements of their modules."""
    needed = {dependency.name: dependency for dependency in gathered.imports}
    found: list[NeededImport] = []
    for home in _list_homes(gathered):
        # `import a.b` and `import a.c` bind one name, and both are needed.
        submodules = frozenset(name for name, reader in gathered.homes if reader == home)
        found += _select_imports(builder.index(home), needed, submodules, builder)
    return tuple(found)


def _list_homes(gathered: Gathered) -> list[str]:
    """The modules whose import statements are asked, each once."""
    homes: list[str] = []
    # The followed module first, so that its statements keep their order.
    if gathered.base:
        homes.append(gathered.base)
    homes += [dependency.home for dependency in gathered.imports]
    homes += sorted(home for _, home in gathered.homes)
    return list(dict.fromkeys(homes))


def render_imports(
    gathered: Gathered, needed: tuple[NeededImport, ...], builder: Builder
) -> tuple[str, ...]:
    """One statement a line for everything in `needed`, and for what outputs of other kinds hold."""
    statements = [each.text for each in needed]
    statements += [
        _render_sibling(kind, dependency, builder) for kind, dependency in gathered.siblings
    ]
    return tuple(dict.fromkeys(statements))


def _select_imports(
    index: ModuleIndex,
    needed: dict[str, Dependency],
    submodules: frozenset[str],
    builder: Builder,
) -> Iterator[NeededImport]:
    """The needed imports of one module; `submodules` are the names that its code reads."""
    read_here = submodules & set(needed)
    for block in index.blocks:
        if block.kind != "import":
            continue
        wanted = []
        for item in block.imports:
            is_submodule = _is_submodule(item) and item.bound in read_here
            is_read = is_submodule or _is_needed(item, needed, index, builder)
            if is_read or _is_for_effect(item, index, builder):
                wanted.append(item)
        if wanted:
            block_id = BlockId(index.source.module, block.first)
            items = tuple(wanted)
            yield NeededImport(block_id, items, _render_import(index, block, items, builder))


def _is_submodule(item: Import) -> bool:
    """Whether this is `import a.b`, which makes `a.b` there beside whatever else binds `a`."""
    return item.binds_package and "." in item.module


def _render_import(
    index: ModuleIndex, block: Block, wanted: tuple[Import, ...], builder: Builder
) -> str:
    """The text that imports `wanted`, of the statement `block`."""
    is_whole = len(wanted) == len(block.imports)
    is_absolute = not any(item.level for item in wanted)
    # A statement over several lines may have comments inside.
    if is_whole and is_absolute and "\n" in block.text:
        return _find_comments_above(index, block) + block.text
    at = Location(index.source.module)
    statements = []
    for item in wanted:
        module = builder.naming.bindings.absolute(index, item.module, item.level, at)
        statements.append(_render_statement(module, item))
    return "".join(statements)


def _find_comments_above(index: ModuleIndex, block: Block) -> str:
    """The comments that belong to an import statement."""
    # The comment above the first statement is the licence.
    if block is index.blocks[0]:
        return ""
    lines = block.leading.splitlines(True)
    return "".join(line for line in lines if line.startswith("#"))


def _is_needed(
    item: Import, needed: dict[str, Dependency], index: ModuleIndex, builder: Builder
) -> bool:
    """Whether this import, of the module `index`, binds a needed name."""
    dependency = needed.get(item.bound)
    if dependency is None or dependency.home != index.source.module:
        return False
    return builder.naming.bindings.counts(index, item)


def _is_for_effect(item: Import, index: ModuleIndex, builder: Builder) -> bool:
    """Whether a module is imported for what it does: nothing reads the name that it binds."""
    # `from a import b` without a use of b is most likely left over.
    if item.name or item.level:
        return False
    top = item.module.partition(".")[0]
    # Modules of the standard library change nothing by being imported; patchgen may not be there.
    if top in sys.stdlib_module_names or top == "patchgen":
        return False
    for block in index.blocks:
        if item.bound in block.uses:
            return False
    is_exported = index.exports is not None and item.bound in index.exports
    return not is_exported and not builder.naming.bindings.flatten_scope.flattens(item.module)


def _render_statement(module: str, item: Import) -> str:
    """One import statement for one name."""
    if item.binds_package:
        return f"import {module}\n"
    if not item.name:
        return f"import {module} as {item.bound}\n"
    return f"from {module} import {_render_name(item.name, item.bound)}\n"


def _render_name(name: str, bound: str) -> str:
    """`name`, with an alias where it is bound to another one."""
    return name if name == bound else f"{name} as {bound}"


def _render_sibling(kind: str, dependency: Dependency, builder: Builder) -> str:
    """The import of a class that stands in the output of another kind, in the same folder."""
    path = builder.naming.plan.modular.source.path
    name = path.rpartition("/")[2].removesuffix(".py")
    place = builder.naming.resolve(dependency.symbol, dependency.home)
    sibling = output_name(name, kind)
    return f"from .{sibling} import {_render_name(place.name, dependency.name)}\n"
