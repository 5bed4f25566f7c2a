"""Refuse names that the flat file cannot give their meaning.

    from helpers import *                   helpers is not flattened
    scale(x)                       PG116    may come from the star import, or from another module

    class LlamaMLP(llama.LlamaMLP): ...
    old = llama.LlamaMLP()         PG117    LlamaMLP is the new class in the flat file

Each function raises PatchgenError, or returns.
"""

from __future__ import annotations

import ast

from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import Naming, Resolution
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.reads import Reference
from patchgen.syntax.trees import global_names, parse_once

_EDITS = "patchgen.edits"


def refuse_star_import(module: ModuleIndex, name: str, naming: Naming) -> None:
    """Raise PG116 where `name` may come from a star import that is only known at run time.

    Such a star import stands under a condition, or imports from a module that is not flattened.
    """
    binders = module.binders(name)
    for block in module.blocks:
        # A later definition of the name hides what the star import brought.
        if binders and block.first < binders[-1].first:
            continue
        for item in block.imports:
            if item.name != "*":
                continue
            at = module.source.at(item.line, item.column)
            target = naming.bindings.absolute(module, item.module, item.level, at)
            if block.is_guarded or _may_define(target, name, naming):
                what = f"{name} may come from this star import"
                raise PatchgenError("PG116", at, what, f"import {name} by its name")


def _may_define(target: str, name: str, naming: Naming) -> bool:
    """Whether the module `target`, which is not flattened, may define `name`."""
    bindings = naming.bindings
    if bindings.env.path(target) is None:
        return True  # its text cannot be read
    if bindings.flatten_scope.looks_into(target):
        return False
    index = bindings.env.index(target, Location(target))
    return name in index.source.text


def refuse_replaced(
    module: ModuleIndex,
    symbol: Symbol,
    place: Resolution,
    at: Location,
    naming: Naming,
    is_called: bool,
) -> None:
    """Raise PG117 where a modular file uses the definition of a parent that it replaces.

    In the flat file, a function that calls the parent's version of itself would call itself.
    A class that is used as a base, as an annotation or in `isinstance` means the new class.
    """
    layers = {layer.source.module for layer in naming.plan.layers}
    in_modular_file = module.source.module in layers
    is_replaced = place.key is not None and place.key != symbol
    if not in_modular_file or symbol.module in layers or not is_replaced:
        return
    block = naming.bindings.require(symbol, at)
    # Only a call makes an object, which would be one of the new class.
    if block.kind == "class" and not is_called:
        return
    what = (
        f"{symbol} is used here, but in the flat file {place.name} is the one "
        "that this modular file declares"
    )
    hint = f"write {place.name} for the new one, or give the new one another name"
    raise PatchgenError("PG117", at, what, hint)


def refuse_unbound(
    module: ModuleIndex, block: Block, reference: Reference, at: Location, naming: Naming
) -> None:
    """Raise PG402 for a name of a modular file that nothing in it binds.

    The flat file may hold a parent's definition of that name, and would use it by chance.
    """
    # An annotation in quotes is read by type checkers only.
    if reference.quoted or _is_declared_global(module, reference.name):
        return
    hint = did_you_mean(reference.name, module.names) or "import or define it"
    if _is_inside_edit(module, block, reference, naming):
        hint = (
            f"list {reference.name} among the edit's parameters if it is a name of the method; "
            f"else {hint}"
        )
    raise PatchgenError("PG402", at, f"the name {reference.name} is bound by nothing", hint)


def _is_declared_global(module: ModuleIndex, name: str) -> bool:
    """Whether a function of `module` binds `name` by a `global` statement."""
    return any(name in global_names(parse_once(block.text)) for block in module.blocks)


def _is_inside_edit(
    module: ModuleIndex, block: Block, reference: Reference, naming: Naming
) -> bool:
    """Whether `reference` stands in a function that `@edit` decorates."""
    for node in ast.walk(parse_once(block.text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        last_line = node.end_lineno or node.lineno
        stands_inside = node.lineno <= reference.line <= last_line
        if stands_inside and _is_edit(module, node, naming):
            return True
    return False


def _is_edit(
    module: ModuleIndex, node: ast.FunctionDef | ast.AsyncFunctionDef, naming: Naming
) -> bool:
    """Whether a decorator of the function is `@edit(...)`."""
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        # `@edit(...)` and `@edits.edit(...)`: any name of the package of edits will do.
        first_name = ast.unparse(decorator.func).partition(".")[0]
        symbol = naming.bindings.meaning(module, first_name)
        if symbol is not None and symbol.module == _EDITS:
            return True
    return False


def refuse_local_import(
    module: ModuleIndex, block: Block, symbol: Symbol, at: Location, naming: Naming
) -> None:
    """Raise PG115 for an import inside a function of a definition that the flat file replaces."""
    if block.kind == "import":
        return
    symbol = naming.bindings.canonical(symbol, at)
    place = naming.resolve(symbol, module.source.module)
    if place.key is not None and place.key != symbol:
        what = f"{symbol} is imported inside a block, but the flat file has its own {place.name}"
        raise PatchgenError("PG115", at, what, "import it at the top of the file")
