"""Keep imports below a statement that may change what they do.

    import os                               import os

    os.environ["FAST"] = "1"        ->
    import kernels                          os.environ["FAST"] = "1"

                                            import kernels

All other imports stand at the top of the flat file, in the formatter's order.  An import stays
below a statement that changes something outside the flat file and that Python runs before it.  It
may still go to the top where its package was imported before that statement, unless the statement
names the package.  The modules that torch imports itself were imported with torch.
"""

from __future__ import annotations

from collections.abc import Iterable

from patchgen.compiler.link.execution import trace_execution
from patchgen.compiler.link.flatblock import BlockId, Builder, FlatBlock
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.imports import NeededImport
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.syntax.blocks import Import

# Of the standard library; `tests/unit/link/test_late_imports.py` asks torch.
IMPORTED_BY_TORCH = frozenset(
    "abc collections contextlib copy dataclasses enum functools importlib inspect itertools logging"
    " math operator os pathlib re string sys threading types typing warnings weakref".split()
)


def find_late_imports(
    needed: tuple[NeededImport, ...], gathered: Gathered, builder: Builder
) -> tuple[FlatBlock, ...]:
    """Those of `needed` that have to stand below a statement of `gathered`, as blocks."""
    acting = _find_acting(gathered, builder)
    # Nearly no file has such a statement, and the rest of this takes time.
    if not acting:
        return ()
    modules = {each.block_id.module for each in needed}
    modules.update(block_id.module for block_id in acting)
    for block in gathered.blocks:
        modules.update(rewritten.symbol.module for rewritten in block.rewritten)
    places = trace_execution(modules, builder)
    first = min(places[block_id] for block_id in acting)
    imported = _find_imports_before(places, first, builder)
    before = _find_packages(imported) - _find_named_packages(acting, builder)
    # `import os` a second time binds what the first one did, whatever ran in between.
    modules_before = {item.module for item, _ in imported if _is_plain(item)}
    late = []
    for each in needed:
        # What Python imports before the statement does not notice it.
        if places[each.block_id] <= first:
            continue
        if _find_undecided(each, modules_before) - before:
            late.append(_make_block(each, builder))
    return tuple(late)


def _is_plain(item: Import) -> bool:
    """Whether the statement is `import a.b`, which binds a module by its absolute name."""
    return not item.name and not item.level


def _find_undecided(needed: NeededImport, modules_before: set[str]) -> set[str]:
    """The packages from which something is imported that no import above has bound.

    `modules_before` are the modules that plain imports above have bound.
    """
    undecided: set[str] = set()
    for item in needed.items:
        is_bound_above = _is_plain(item) and item.module in modules_before
        if not is_bound_above:
            undecided.add(_find_package(item, needed.block_id.module))
    return undecided


def _find_acting(gathered: Gathered, builder: Builder) -> list[BlockId]:
    """The statements of `gathered` that change something outside the file."""
    acting = []
    for block in gathered.blocks:
        if block.kind in ("class", "def", "import"):
            continue
        index = builder.index(block.block_id.module)
        change = builder.changes.of(index, builder.source_block(block.block_id))
        if change.outside:
            acting.append(block.block_id)
    return acting


def _find_imports_before(
    places: dict[BlockId, int], first: int, builder: Builder
) -> list[tuple[Import, str]]:
    """What Python imports above statement `first`, whether or not the flat file does; and where.

    The file of a mixin may import transformers for another of its mixins: transformers ran then.
    """
    found = []
    above = [block_id for block_id, place in places.items() if place < first]
    for block_id in above:
        block = builder.source_block(block_id)
        if block.kind == "import" and not block.is_for_types:
            found += [(item, block_id.module) for item in block.imports]
    return found


def _find_packages(imported: Iterable[tuple[Import, str]]) -> set[str]:
    """The packages that the imports have run."""
    found = {_find_package(item, module) for item, module in imported}
    if "torch" in found:
        found |= IMPORTED_BY_TORCH
    return found


def _find_named_packages(acting: Iterable[BlockId], builder: Builder) -> set[str]:
    """The packages that the statements name.

    `kernels.FAST = True` may change what `from kernels import FAST` below it imports.
    """
    found: set[str] = set()
    for block_id in acting:
        uses = builder.source_block(block_id).uses
        for block in builder.index(block_id.module).blocks:
            for item in block.imports:
                if item.bound in uses and not item.level:
                    found.add(_find_package(item, block_id.module))
    return found


def _find_package(item: Import, module: str) -> str:
    """The top-level package that an import of `module` runs first."""
    # A relative import stays in the package of the file.
    imported = module if item.level else item.module
    return imported.partition(".")[0]


def _make_block(needed: NeededImport, builder: Builder) -> FlatBlock:
    """The import as a block, so that it is ordered with the others."""
    block_id = needed.block_id
    # A statement that is needed whole has the comments above it in its text.
    leading = "" if needed.text.startswith("#") else builder.source_block(block_id).leading
    names = tuple(dict.fromkeys(item.bound for item in needed.items))
    rewritten = RewrittenBlock(
        symbol=Symbol(block_id.module, names[0]),
        kind="import",
        name=names[0],
        leading=leading,
        text=needed.text,
        source=builder.index(block_id.module).source,
        first=block_id.first,
        defines=names,
    )
    return FlatBlock(
        block_id=block_id,
        kind="import",
        name=names[0],
        leading=leading,
        text=needed.text,
        dependencies=(),
        defines=names,
        rewritten=(rewritten,),
    )
