"""What a flat modeling module ends with, so that transformers treats its classes as it treats its own.

In: a plan and the blocks of its modeling output.  Out: statements as text, empty when there is nothing to say.

transformers takes a class outside its package for custom code.  It then converts none of its checkpoints (told in
`conversions`), and initialises no module that has no parameters of its own: a flat GPT-2 silently lost the scaled
start of its projections.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.compiler.link.conversions import (
    model_types,
    registered_names,
    registration,
    to_register,
)
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.plan.kinds import kind_of_module
from patchgen.errors import Location, PatchgenError
from patchgen.syntax.blocks import Block

_TABLE = "transformers.conversion_mapping"
_MODELS = "transformers.modeling_utils"


def render_conversions(blocks: tuple[FlatBlock, ...], builder: Builder) -> str:
    """The statements for what `blocks` define; "" also where this transformers has no conversions.

    Raises PatchgenError PG405 when transformers keeps them in a form that is not known.
    """
    env = builder.naming.bindings.env
    if env.path(_TABLE) is None:
        return ""
    try:
        registered = registered_names(env.source(_TABLE, Location(_TABLE)).text)
    except ValueError as error:
        at = Location(builder.naming.plan.modular.source.path)
        raise PatchgenError(
            "PG405", at, str(error), "use a release of transformers that patchgen supports"
        ) from error
    return registration(to_register(registered, {**_types(builder), **_classes(blocks)}))


def render_initialization(blocks: tuple[FlatBlock, ...], builder: Builder) -> str:
    """The statements that keep transformers' initialisation for the classes that derive from its `PreTrainedModel`.

    A modular file that writes its own `_init_weights` keeps the treatment of custom code, which protects loaded
    weights from initialisation in place.
    """
    env = builder.naming.bindings.env
    if env.path(_MODELS) is None or not env.spells(_MODELS, "def is_custom_code"):
        return ""
    layers = {layer.source.module for layer in builder.naming.plan.layers}
    lines = [
        f"{block.name}.is_custom_code = classmethod(lambda cls: False)\n"
        for block in blocks
        if block.kind == "class" and _is_top_model(block)
        if not any(_own_initialisation(each, layers) for each in (block, *_heirs(block, blocks)))
    ]
    return "".join(
        [
            "# These classes are transformers' own, changed: they are initialised as it does.\n",
            *lines,
        ]
        if lines
        else []
    )


def _is_top_model(block: FlatBlock) -> bool:
    """Whether a base of the class is `PreTrainedModel` itself."""
    node = next(n for n in ast.parse(block.text).body if isinstance(n, ast.ClassDef))
    names = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return any(need.symbol.name == "PreTrainedModel" and need.name in names for need in block.needs)


def _heirs(block: FlatBlock, blocks: tuple[FlatBlock, ...]) -> Iterator[FlatBlock]:
    """The classes that have taken the place of a parent, and stay subclasses of it."""
    yield from (other for other in blocks if block.aside and block.origin in other.parents)


def _own_initialisation(block: FlatBlock, layers: set[str]) -> bool:
    ours = [piece.text for piece in block.pieces if piece.symbol.module in layers]
    return "is_custom_code" in block.text or any("def _init_weights" in text for text in ours)


def parent_model_types(builder: Builder) -> frozenset[str]:
    """The model types that the configurations of the parents have in transformers."""
    return frozenset(_types(builder).values())


def _classes(blocks: tuple[FlatBlock, ...]) -> dict[str, str]:
    """Each flat class with the name that its first parent has in transformers."""
    return {
        block.name: block.origin.name
        for block in blocks
        if block.kind == "class" and not block.aside
    }


def _types(builder: Builder) -> dict[str, str]:
    """Each model type of the output with the one of its parent."""
    found = {
        name: name for module in _configurations(builder) for name in _declared_in(builder, module)
    }
    plan = builder.naming.plan
    for declaration in plan.declarations:
        if declaration.kind != "configuration":
            continue
        line = (declaration.symbol, *declaration.parents)
        chain = [builder.index(s.module).definition(s.name) for s in line]
        stated = [name for block in chain if block for name in _stated(block)]
        if stated and declaration.parents:
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
                | ast.AnnAssign(
                    target=ast.Name(id="model_type"), value=ast.Constant(value=str(name))
                )
            ):
                yield name
            case _:
                pass
