"""Write the end of a flat modeling module, which makes transformers treat its classes as its own.

    TinyPreTrainedModel.is_custom_code = classmethod(lambda cls: False)
    register_checkpoint_conversion_mapping("mixtral", ..., overwrite=True)

transformers takes a class outside its package for custom code.  It then converts none of its
checkpoints (`conversions` says how), and does not initialise modules without parameters of their
own: a flat GPT-2 lost the scaled initialisation of its projections.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.compiler.link.conversions import (
    read_model_types,
    read_registered_names,
    render_registrations,
    select_registered,
)
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.kinds import kind_of_module
from patchgen.facts.modules import CONVERSIONS, MODELING_UTILS, MODELS
from patchgen.syntax.blocks import Block
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.trees import parse_class, parse_once

_COMMENT = "# These classes are transformers' own, changed: they are initialised as it does.\n"


def render_conversions(blocks: tuple[FlatBlock, ...], builder: Builder) -> str:
    """The statements that register the checkpoint conversions of the classes in `blocks`.

    "" where this release of transformers has no conversions.  Raises PatchgenError PG405 when
    transformers keeps them in an unknown form.
    """
    env = builder.naming.bindings.env
    if env.path(CONVERSIONS) is None:
        return ""
    try:
        registered = read_registered_names(env.source(CONVERSIONS, Location(CONVERSIONS)).text)
    except ValueError as error:
        at = Location(builder.naming.plan.modular.source.path)
        hint = "use a release of transformers that patchgen supports"
        raise PatchgenError("PG405", at, str(error), hint) from error
    # Both kinds of names share one table in transformers.
    sources = _map_model_types(builder) | _map_classes(blocks)
    if _are_converted_by_name(blocks, builder):
        sources = {name: source for name, source in sources.items() if name != source}
    return render_registrations(select_registered(registered, sources))


def _are_converted_by_name(blocks: tuple[FlatBlock, ...], builder: Builder) -> bool:
    """Whether transformers takes every model of the file for its own, as its conversions read it.

        MixtralPreTrainedModel.is_custom_code = classmethod(lambda cls: False)

    It then finds the entry of "mixtral" for them without a registration.
    """
    # Older releases go by the name of the module.
    if not builder.naming.bindings.env.spells(CONVERSIONS, "is_custom_code"):
        return False
    own = _find_initialized_by_transformers(blocks, builder)
    defined = {block.name for block in blocks}
    for block in blocks:
        is_model = block.kind == "class" and _derives_from_pretrained_model(block)
        if (is_model and block not in own) or _derives_from_another_model(block, defined):
            return False
    return True


def render_initialization(blocks: tuple[FlatBlock, ...], builder: Builder) -> str:
    """The statements that keep transformers' initialisation for its classes.

    A modular file that writes its own `_init_weights` keeps the treatment of custom code, which
    protects loaded weights from initialisation in place.
    """
    env = builder.naming.bindings.env
    # Older releases make no such difference.
    if env.path(MODELING_UTILS) is None or not env.spells(MODELING_UTILS, "def is_custom_code"):
        return ""
    lines = [
        f"{block.name}.is_custom_code = classmethod(lambda cls: False)\n"
        for block in _find_initialized_by_transformers(blocks, builder)
    ]
    return "".join([_COMMENT, *lines]) if lines else ""


def _find_initialized_by_transformers(
    blocks: tuple[FlatBlock, ...], builder: Builder
) -> list[FlatBlock]:
    """The subclasses of `PreTrainedModel` whose `_init_weights` is transformers' own."""
    found = []
    for block in blocks:
        if block.kind != "class" or not _derives_from_pretrained_model(block):
            continue
        classes = (block, *_find_replacing(block, blocks))
        if not any(_initializes_itself(each, builder) for each in classes):
            found.append(block)
    return found


def _derives_from_pretrained_model(block: FlatBlock) -> bool:
    """Whether a base of the class is `PreTrainedModel` itself."""
    spelled = {
        dependency.name
        for dependency in block.dependencies
        if dependency.symbol.name == "PreTrainedModel"
    }
    return _has_base(block, spelled)


def _derives_from_another_model(block: FlatBlock, defined: set[str]) -> bool:
    """Whether a base of the class is imported from where models are, or may be."""
    spelled = {
        dependency.name
        for dependency in block.dependencies
        if dependency.name not in defined and _may_have_models(dependency.symbol.module)
    }
    return block.kind == "class" and _has_base(block, spelled)


def _may_have_models(module: str) -> bool:
    package = module.partition(".")[0]
    return module.startswith(f"{MODELS}.") or package not in ("torch", "transformers")


def _has_base(block: FlatBlock, names: set[str]) -> bool:
    # Parsing takes longer than the look at the names.
    if not names:
        return False
    bases = parse_class(block.text).bases
    return any(isinstance(base, ast.Name) and base.id in names for base in bases)


def _find_replacing(block: FlatBlock, blocks: tuple[FlatBlock, ...]) -> Iterator[FlatBlock]:
    """The classes that took the name of a parent, and stay subclasses of it."""
    if not block.aside:
        return
    for other in blocks:
        if block.origin in other.parents:
            yield other


def _initializes_itself(block: FlatBlock, builder: Builder) -> bool:
    """Whether a modular file writes the initialisation of the class."""
    if "is_custom_code" in block.text:
        return True
    own = [
        rewritten.text for rewritten in block.rewritten if rewritten.symbol.module in builder.layers
    ]
    return any("def _init_weights" in text for text in own)


def parent_model_types(builder: Builder) -> frozenset[str]:
    """The model types that the configurations of the parents have in transformers."""
    return frozenset(_map_model_types(builder).values())


def _map_classes(blocks: tuple[FlatBlock, ...]) -> dict[str, str]:
    """Each flat class with the name that its first parent has in transformers."""
    # transformers looks the conversion of a parent up by the name of the class that stands for it.
    classes = [block for block in blocks if block.kind == "class" and not block.aside]
    return {block.name: block.origin.name for block in classes}


def _map_model_types(builder: Builder) -> dict[str, str]:
    """Each model type of the output with the one of its parent."""
    found: dict[str, str] = {}
    for module in find_configurations(builder):
        for name in read_model_types(builder.index(module).source.text):
            found[name] = name
    for declaration in builder.naming.plan.declarations:
        if declaration.kind != "configuration" or not declaration.parents:
            continue
        stated = _list_model_types(declaration, builder)
        # The first is the variant's, the last the one that transformers knows.
        if stated:
            found[stated[0]] = stated[-1]
    return found


def _list_model_types(declaration: Declaration, builder: Builder) -> list[str]:
    """The model types of a configuration, from the variant's own to the last parent's."""
    stated: list[str] = []
    for symbol in (declaration.symbol, *declaration.parents):
        block = builder.index(symbol.module).definition(symbol.name)
        if block is not None:
            stated += _find_model_types(block)
    return stated


def find_configurations(builder: Builder) -> Iterator[str]:
    """The configuration modules that the parents of the modeling output import."""
    bindings = builder.naming.bindings
    for parent in builder.naming.plan.parents:
        index = builder.index(parent)
        for item in index.imports:
            module = bindings.absolute(index, item.module, item.level, Location(parent))
            if kind_of_module(module) == "configuration":
                yield module


def _find_model_types(block: Block) -> Iterator[str]:
    """The values that a class assigns to `model_type`."""
    for node in ast.walk(parse_once(block.text)):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="model_type")], value=ast.Constant(value=str(name)))
                | ast.AnnAssign(
                    target=ast.Name(id="model_type"), value=ast.Constant(value=str(name))
                )
            ):
                yield name
