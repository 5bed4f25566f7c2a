"""Refuse code whose meaning depends on the module that it stands in.

toy.SCALE = 3                   in a function, it would set a local variable of the flat file
global SCALE                    over `from toy import SCALE`: one name for those of two modules
try: from .fast import act      a flattened module, which may not exist
open(__file__)                  the path of another file (`module_reads`)
"""

from __future__ import annotations

import ast
import functools
import re

from patchgen.compiler.link.module_reads import find_inner_nodes, refuse_module_reads
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.reads import Reference
from patchgen.syntax.trees import Position, parse_once, position_of, statements_within, walk

_GLOBAL = re.compile(r"\bglobal\b")


def refuse_module_state(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PatchgenError PG131, PG132 or PG133 where `block` depends on its module."""
    _refuse_conditional_imports(module, block, naming)
    _refuse_stores(module, block, naming)
    _refuse_global_statements(module, block, naming)
    _refuse_stale_imports(module, block, naming)
    refuse_module_reads(module, block, naming)


def _refuse_conditional_imports(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PG131 for an import that stays as it is, from a module that the flat file replaces."""
    if not block.is_guarded and block.kind != "import":
        return
    for item in block.imports:
        if not naming.bindings.is_contested(module, item.bound):
            continue
        at = module.source.at(item.line, item.column)
        symbol = naming.bindings.canonical(naming.bindings.imported_symbol(module, item), at)
        home = symbol.module
        # transformers' own modules can be imported wherever the flat file is used.
        if not _is_flattened(home, naming) or home.startswith(f"{MODELS}."):
            continue
        if block.is_guarded:
            what = f"{item.bound} is imported under a condition from {home}, which is flattened"
            hint = "import it without a condition, or inside a function: such imports stay imports"
        else:
            what = f"{item.bound} is imported from {home}, which is flattened, and bound here again"
            hint = f"import it under another name: from {home} import {item.name} as _{item.name}"
        raise PatchgenError("PG131", at, what, hint)


def _is_flattened(module: str, naming: Naming) -> bool:
    """Whether the flat file carries what it uses of `module`."""
    bindings = naming.bindings
    return bindings.flatten_scope.flattens(module) and bindings.env.path(module) is not None


def _refuse_stores(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PG132 for `toy.SCALE = 3` in a function or class.

    At the top of a file such a statement binds SCALE in the flat file too.
    """
    if block.kind == "import":
        return
    # Few names stand for a flattened module, so nearly no block has to be parsed.
    targets: dict[Position, str] = {}
    for reference in block.references:
        if reference.attributes:
            target = _find_stored_module(module, reference.name, reference.attributes, naming)
            if target is not None:
                targets[reference.position] = target
    if not targets:
        return
    # By position, as a reference and a node of another parse have nothing else in common.
    stores = _find_inner_stores(parse_once(block.text))
    for reference in block.references:
        store = stores.get(reference.position)
        target = targets.get(reference.position)
        if store is not None and target is not None:
            at = module.source.at(block.first + reference.line - 1, reference.column)
            what = (
                f"{ast.unparse(store)} is set here, "
                f"which is a name of the flattened module {target}"
            )
            hint = "keep the value in an object that both can change, such as a dictionary"
            raise PatchgenError("PG132", at, what, hint)


def _find_inner_stores(tree: ast.Module) -> dict[Position, ast.Attribute]:
    """The attributes of names that functions and classes set, by the position of the name."""
    inside = find_inner_nodes(tree)
    stores: dict[Position, ast.Attribute] = {}
    for node in walk(tree):
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
            continue
        root = _find_root(node)
        if root is not None and id(node) in inside:
            stores[position_of(root)] = node
    return stores


def _find_root(node: ast.expr) -> ast.Name | None:
    """The name `a` of `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    # `make().b` begins with no name.
    if not isinstance(node, ast.Name):
        return None
    return node


def _find_stored_module(
    module: ModuleIndex, name: str, attributes: tuple[str, ...], naming: Naming
) -> str | None:
    """The flattened module of which `name.attributes` is a name, else None."""
    symbol = naming.bindings.meaning(module, name)
    # All but the last attribute have to lead to a module.
    for attribute in attributes[:-1]:
        if symbol is None or not _may_have_modules(symbol, naming):
            return None
        member = Symbol(symbol.module, attribute)
        symbol = naming.bindings.canonical(member, Location(module.source.path))
    is_module = symbol is not None and not symbol.name
    if symbol is None or not is_module or not _is_flattened(symbol.module, naming):
        return None
    return symbol.module


def _may_have_modules(symbol: Symbol, naming: Naming) -> bool:
    """Whether `symbol` is a module or package of the flattened ones."""
    return not symbol.name and naming.bindings.flatten_scope.flattens(symbol.module)


def _refuse_global_statements(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PG132 for `global NAME` over an imported name of a flattened module."""
    for name, line, column in _find_global_names(block.text):
        imported = _find_flattened_import(module, name, naming)
        if imported is not None:
            at = module.source.at(block.first + line - 1, column)
            what = (
                f"global {name} binds this file's own {name}, which is {imported} in the flat file"
            )
            hint = f"give this file's own another name: _{name} = {name}"
            raise PatchgenError("PG132", at, what, hint)


def _refuse_stale_imports(module: ModuleIndex, block: Block, naming: Naming) -> None:
    """Raise PG132 for an imported name whose own module gives it other values later.

    In Python the importing file keeps the first value; in the flat file both are one name.
    """
    # What holds for the first read of a name holds for all of them.
    firsts: dict[str, Reference] = {}
    for reference in block.references:
        firsts.setdefault(reference.name, reference)
    for reference in firsts.values():
        imported = _find_flattened_import(module, reference.name, naming)
        if imported is not None and _is_rebound(imported, naming):
            at = module.source.at(block.first + reference.line - 1, reference.column)
            what = (
                f"{reference.name} was imported by its name, "
                f"and {imported.module} binds {imported.name} anew later"
            )
            hint = (
                f"import the module and write <module>.{imported.name} "
                "for the value that it has by then"
            )
            raise PatchgenError("PG132", at, what, hint)


def _find_flattened_import(module: ModuleIndex, name: str, naming: Naming) -> Symbol | None:
    """What `name` stands for, where `module` imports it from a flattened module."""
    symbol = naming.bindings.meaning(module, name)
    # A module as a whole is no name that two files could share.
    if symbol is None or not symbol.name:
        return None
    is_own = symbol.module == module.source.module
    if is_own or not _is_flattened(symbol.module, naming):
        return None
    return symbol


# The blocks of a module are asked again for each name that another one imports from it.
@functools.lru_cache(maxsize=4096)
def _find_global_names(text: str) -> tuple[tuple[str, int, int], ...]:
    """The names of `global` statements, with their positions."""
    if _GLOBAL.search(text) is None:
        return ()
    return tuple(
        (name, node.lineno, node.col_offset)
        for node in statements_within(parse_once(text))
        if isinstance(node, ast.Global)
        for name in node.names
    )


def _is_rebound(symbol: Symbol, naming: Naming) -> bool:
    """Whether a function of its module binds `symbol` again."""
    index = naming.bindings.env.index(symbol.module, Location(symbol.module))
    for block in index.blocks:
        for name, _, _ in _find_global_names(block.text):
            if name == symbol.name:
                return True
    return False
