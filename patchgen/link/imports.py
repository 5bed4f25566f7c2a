"""The import statements of a flat file: what its blocks need, absolute, each name once.

Statements of the followed module that are needed whole keep their text and comments.  Sorting and merging is the
formatter's work.
"""

from __future__ import annotations

from patchgen.errors import Location
from patchgen.link.flatblock import Builder, Need
from patchgen.link.gather import Gathered
from patchgen.link.lazy import is_lazy
from patchgen.plan.kinds import output_name
from patchgen.plan.model import Symbol
from patchgen.source.blocks import Import, ModuleIndex


def import_statements(gathered: Gathered, builder: Builder) -> tuple[str, ...]:
    """One statement a line for every need of `gathered`."""
    needed = {need.name: need for need in gathered.imports}
    homes = dict.fromkeys([*([gathered.base] if gathered.base else []), *(n.home for n in gathered.imports)])
    statements: list[str] = []
    for home in homes:
        statements += _from_home(builder.index(home), needed, home, builder)
    statements += [_sibling(kind, need, builder) for kind, need in gathered.siblings]
    lazy = any(is_lazy(builder.index(unit.module)) for unit in {b.unit for b in gathered.blocks})
    if lazy and not builder.spells:
        statements.insert(0, "from __future__ import annotations\n")
    return tuple(dict.fromkeys(statements))


def _from_home(index: ModuleIndex, needed: dict[str, Need], home: str, builder: Builder) -> list[str]:
    statements = []
    for block in index.blocks:
        if block.kind != "import" or "__future__" in {item.module for item in block.imports}:
            continue
        wanted = [item for item in block.imports if _is_needed(item, needed, home)]
        if not wanted:
            continue
        if len(wanted) == len(block.imports) and not any(item.level for item in wanted) and "\n" in block.text:
            comments = "".join(line for line in block.leading.splitlines(True) if line.startswith("#"))
            first = block is index.blocks[0]
            statements.append(("" if first else comments) + block.text)
            continue
        statements += [
            _statement(builder.naming.bindings.absolute(index, i.module, i.level, Location(home)), i) for i in wanted
        ]
    return statements


def _is_needed(item: Import, needed: dict[str, Need], home: str) -> bool:
    """Whether this import statement, of module `home`, is the one that meets a need."""
    need = needed.get(item.bound)
    return need is not None and need.home == home


def _statement(module: str, item: Import) -> str:
    if not item.name:
        return f"import {module}\n" if item.binds_package else f"import {module} as {item.bound}\n"
    alias = "" if item.bound == item.name else f" as {item.bound}"
    return f"from {module} import {item.name}{alias}\n"


def _sibling(kind: str, need: Need, builder: Builder) -> str:
    """The import of a class that stands in the output of another kind, in the same folder."""
    path = builder.naming.plan.modular.source.path
    name = path.rpartition("/")[2].removesuffix(".py")
    key: Symbol = need.symbol
    place = builder.naming.place(key, need.home)
    alias = "" if place.name == need.name else f" as {need.name}"
    return f"from .{output_name(name, kind)} import {place.name}{alias}\n"
