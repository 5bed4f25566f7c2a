"""The import statements of a flat file: what its blocks need, absolute, each name once.

Statements of the followed module that are needed whole keep their text and comments.  Sorting and merging is the
formatter's work.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.compiler.link.flatblock import BlockId, Builder, Dependency
from patchgen.compiler.link.future_annotations import has_future_annotations
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.plan.kinds import output_name
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import Location
from patchgen.syntax.blocks import Block, Import, ModuleIndex


@dataclass(frozen=True, slots=True)
class NeededImport:
    """The names `items` of one import statement, which stands at `unit`, and their import in the flat file."""

    unit: BlockId
    items: tuple[Import, ...]
    text: str


def find_needed_imports(gathered: Gathered, builder: Builder) -> tuple[NeededImport, ...]:
    """What the blocks of `gathered` need of the import statements of their modules."""
    needed = {need.name: need for need in gathered.imports}
    further = sorted({home for _, home in gathered.homes})
    homes = dict.fromkeys(
        [*([gathered.base] if gathered.base else []), *(n.home for n in gathered.imports), *further]
    )
    found: list[NeededImport] = []
    for home in homes:
        # `import a.b` and `import a.c` bind one name, and both are needed.
        submodules = frozenset(name for name, reader in gathered.homes if reader == home)
        found += _from_home(builder.index(home), needed, submodules, builder)
    return tuple(found)


def render_imports(
    gathered: Gathered, needed: tuple[NeededImport, ...], builder: Builder
) -> tuple[str, ...]:
    """One statement a line for everything in `needed`, and for what stands in the outputs of other kinds."""
    statements = [each.text for each in needed]
    statements += [_sibling(kind, need, builder) for kind, need in gathered.siblings]
    lazy = any(
        has_future_annotations(builder.index(unit.module))
        for unit in {b.unit for b in gathered.blocks}
    )
    if lazy and not builder.spells:
        statements.insert(0, "from __future__ import annotations\n")
    return tuple(dict.fromkeys(statements))


def _from_home(
    index: ModuleIndex, needed: dict[str, Dependency], submodules: frozenset[str], builder: Builder
) -> Iterator[NeededImport]:
    home = index.source.module
    for block in index.blocks:
        if block.kind != "import" or "__future__" in {item.module for item in block.imports}:
            continue
        wanted = tuple(
            item
            for item in block.imports
            if _is_needed(item, needed, index, builder)
            or (_is_submodule(item) and item.bound in submodules & set(needed))
            or _is_for_effect(item, index, builder)
        )
        if wanted:
            yield NeededImport(
                BlockId(home, block.first), wanted, _text(index, block, wanted, builder)
            )


def _is_submodule(item: Import) -> bool:
    """Whether this is `import a.b`, which makes `a.b` there beside whatever else binds `a`."""
    return item.binds_package and "." in item.module


def _text(index: ModuleIndex, block: Block, wanted: tuple[Import, ...], builder: Builder) -> str:
    if (
        len(wanted) == len(block.imports)
        and not any(item.level for item in wanted)
        and "\n" in block.text
    ):
        comments = "".join(line for line in block.leading.splitlines(True) if line.startswith("#"))
        return ("" if block is index.blocks[0] else comments) + block.text
    at = Location(index.source.module)
    bindings = builder.naming.bindings
    return "".join(_statement(bindings.absolute(index, i.module, i.level, at), i) for i in wanted)


def _is_needed(
    item: Import, needed: dict[str, Dependency], index: ModuleIndex, builder: Builder
) -> bool:
    """Whether this import, of the module `index`, is the one that meets a need."""
    need = needed.get(item.bound)
    return (
        need is not None
        and need.home == index.source.module
        and builder.naming.bindings.counts(index, item)
    )


def _is_for_effect(item: Import, index: ModuleIndex, builder: Builder) -> bool:
    """Whether a module is imported though nothing reads its name: then it is imported for what it does."""
    top = item.module.partition(".")[0]
    if item.name or item.level or top in sys.stdlib_module_names or top == "patchgen":
        return False
    read = any(item.bound in block.uses for block in index.blocks) or item.bound in (
        index.exports or ()
    )
    return not read and not builder.naming.bindings.flatten_scope.flattens(item.module)


def _statement(module: str, item: Import) -> str:
    if not item.name:
        return f"import {module}\n" if item.binds_package else f"import {module} as {item.bound}\n"
    alias = "" if item.bound == item.name else f" as {item.bound}"
    return f"from {module} import {item.name}{alias}\n"


def _sibling(kind: str, need: Dependency, builder: Builder) -> str:
    """The import of a class that stands in the output of another kind, in the same folder."""
    path = builder.naming.plan.modular.source.path
    name = path.rpartition("/")[2].removesuffix(".py")
    key: Symbol = need.symbol
    place = builder.naming.resolve(key, need.home)
    alias = "" if place.name == need.name else f" as {need.name}"
    return f"from .{output_name(name, kind)} import {place.name}{alias}\n"
