"""The registrations of checkpoint conversions with which a flat modeling module ends.

In: a plan and the blocks of its modeling output.  Out: statements as text, empty when no class or model type has an
entry.  Why and what is registered is told in `conversions`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.errors import Location, PatchgenError
from patchgen.link.conversions import model_types, registered_names, registration, to_register
from patchgen.link.flatblock import Builder, FlatBlock
from patchgen.plan.kinds import kind_of_module
from patchgen.source.blocks import Block

_TABLE = "transformers.conversion_mapping"


def registrations(blocks: tuple[FlatBlock, ...], builder: Builder) -> str:
    """The statements for what `blocks` define; "" also where this transformers has no conversions.

    Raises PatchgenError PG405 when transformers keeps them in a form that is not known.
    """
    path = builder.naming.bindings.env.path(_TABLE)
    if path is None:
        return ""
    try:
        registered = registered_names(path.read_text(encoding="utf-8"))
    except ValueError as error:
        at = Location(builder.naming.plan.modular.source.path)
        raise PatchgenError("PG405", at, str(error), "use a release of transformers that patchgen supports") from error
    return registration(to_register(registered, {**_types(builder), **_classes(blocks)}))


def _classes(blocks: tuple[FlatBlock, ...]) -> dict[str, str]:
    """Each flat class with the name that its first parent has in transformers."""
    return {block.name: block.pieces[-1].symbol.name for block in blocks if block.kind == "class"}


def _types(builder: Builder) -> dict[str, str]:
    """Each model type of the output with the one of its parent."""
    found = {name: name for module in _configurations(builder) for name in _declared_in(builder, module)}
    plan = builder.naming.plan
    for declaration in plan.declarations:
        if declaration.kind != "configuration":
            continue
        chain = [builder.index(s.module).definition(s.name) for s in declaration.chain]
        stated = [name for block in chain if block for name in _stated(block)]
        if stated and len(declaration.chain) > 1:
            found[stated[0]] = stated[-1]
    return found


def _configurations(builder: Builder) -> Iterator[str]:
    """The configuration modules that the parents of the modeling output import."""
    plan, bindings = builder.naming.plan, builder.naming.bindings
    for parent in plan.parents:
        index = builder.index(parent)
        for item in (item for block in index.blocks for item in block.imports):
            module = bindings.absolute(index, item.module, item.level, Location(parent))
            if kind_of_module(module) == "configuration":
                yield module


def _declared_in(builder: Builder, module: str) -> frozenset[str]:
    return model_types(builder.index(module).source.text)


def _stated(block: Block) -> Iterator[str]:
    for node in ast.walk(ast.parse(block.text)):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="model_type")], value=ast.Constant(value=str(name)))
                | ast.AnnAssign(target=ast.Name(id="model_type"), value=ast.Constant(value=str(name)))
            ):
                yield name
            case _:
                pass
