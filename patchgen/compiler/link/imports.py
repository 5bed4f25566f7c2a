"""Write the import statements of a flat file: what its blocks need, absolute, each name once.

    from ..llama.modeling_llama import rotate_half   (used, and carried as a block: no import)
    from ...activations import ACT2FN, gelu    ->    from transformers.activations import ACT2FN

A statement that is needed whole keeps its text and its comments.  The formatter sorts and merges.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from patchgen.compiler.link.flatblock import Builder, Dependency
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.plan.prefixes import output_name
from patchgen.syntax.blocks import Block, Import, ModuleIndex
from patchgen.syntax.errors import Location


def find_imports(gathered: Gathered, builder: Builder) -> tuple[str, ...]:
    """The import statements that the blocks of `gathered` need, each once.

    They are those of their modules, and those of what outputs of other kinds hold.
    """
    needed = {dependency.name: dependency for dependency in gathered.imports}
    # The followed module first, so that its statements keep their order.
    homes = [gathered.base] if gathered.base else []
    homes += [dependency.home for dependency in gathered.imports]
    homes += sorted(home for _, home in gathered.homes)
    statements: list[str] = []
    for home in dict.fromkeys(homes):
        statements += _select_imports(home, needed, gathered.homes, builder)
    path = builder.naming.plan.modular.source.path
    for kind, dependency in gathered.siblings:
        sibling = output_name(path.rpartition("/")[2].removesuffix(".py"), kind)
        name = builder.naming.resolve(dependency.symbol, dependency.home).name
        statements.append(f"from .{sibling} import {_render_name(name, dependency.name)}\n")
    return tuple(dict.fromkeys(statements))


def _select_imports(
    home: str,
    needed: dict[str, Dependency],
    homes: frozenset[tuple[str, str]],
    builder: Builder,
) -> Iterator[str]:
    """The needed imports of the module `home`."""
    index, bindings = builder.index(home), builder.naming.bindings
    for block in index.blocks:
        wanted = []
        for item in block.imports if block.kind == "import" else ():
            dependency = needed.get(item.bound)
            # `import a.b` and `import a.c` bind one name, and both are needed.
            is_submodule = item.binds_package and "." in item.module
            is_read = dependency is not None and (
                (is_submodule and (item.bound, home) in homes)
                or (dependency.home == home and bindings.counts(index, item))
            )
            if is_read or _is_for_effect(item, index, builder):
                wanted.append(item)
        if wanted:
            yield _render_import(index, block, wanted, builder)


def _render_import(index: ModuleIndex, block: Block, wanted: list[Import], builder: Builder) -> str:
    """The text that imports `wanted`, of the statement `block`."""
    is_absolute = not any(item.level for item in wanted)
    # A statement over several lines may have comments inside, and above.
    if len(wanted) == len(block.imports) and is_absolute and "\n" in block.text:
        # The comment above the first statement is the licence.
        above = [] if block is index.blocks[0] else block.leading.splitlines(True)
        return "".join([*(line for line in above if line.startswith("#")), block.text])
    statements = []
    for item in wanted:
        at = Location(index.source.module)
        module = builder.naming.bindings.absolute(index, item.module, item.level, at)
        if item.binds_package:
            statements.append(f"import {module}\n")
        elif not item.name:
            statements.append(f"import {module} as {item.bound}\n")
        else:
            statements.append(f"from {module} import {_render_name(item.name, item.bound)}\n")
    return "".join(statements)


def _is_for_effect(item: Import, index: ModuleIndex, builder: Builder) -> bool:
    """Whether a module is imported for what it does: nothing reads the name that it binds."""
    # `from a import b` without a use of b is most likely left over.
    if item.name or item.level:
        return False
    top = item.module.partition(".")[0]
    # Modules of the standard library change nothing by being imported; patchgen may not be there.
    if top in sys.stdlib_module_names or top == "patchgen":
        return False
    if item.bound in (index.exports or ()) or any(item.bound in each.uses for each in index.blocks):
        return False
    return not builder.naming.bindings.flatten_scope.flattens(item.module)


def _render_name(name: str, bound: str) -> str:
    """`name`, with an alias where it is bound to another one."""
    return name if name == bound else f"{name} as {bound}"
