"""The checkpoint part for a model: layers that can be checkpointed, and the mixin that chooses what is kept."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen.anatomy.attention import Attentions
from patchgen.anatomy.layers import CHECKPOINTED, Layers, has_checkpointed
from patchgen.anatomy.module import Class, Module
from patchgen.declare.variant import Contribution, Declared, Missing

SAYS = (
    'Activation checkpointing, of every layer or every k-th, "full" or "selective": options are given as '
    "`gradient_checkpointing_kwargs`; see `patchgen.parts.checkpoint`."
)


def checkpoint(module: Module) -> Contribution:
    """What the part declares for `module`."""
    found = Layers(module, Attentions(module))
    missing = tuple(_missing(module, found))
    if missing:
        return Contribution("checkpoint", missing=missing)
    plain = [layer for layer in _layers(found) if not has_checkpointed(layer)]
    declared = [Declared(layer.name, behind=(CHECKPOINTED,)) for layer in _topmost(plain)]
    declared += [Declared(owner.name, mixins=("Checkpointing",)) for owner in module.pretrained]
    imports = ["from patchgen.parts.checkpoint import Checkpointing"]
    if plain:
        imports.append(f"from transformers.modeling_layers import {CHECKPOINTED}")
    return Contribution("checkpoint", SAYS, tuple(declared), tuple(imports))


def _topmost(layers: list[Class]) -> list[Class]:
    """The layers without those that inherit from another of them."""
    return [layer for layer in layers if not any(layer is not one and _inherits(layer, one) for one in layers)]


def _inherits(layer: Class, other: Class) -> bool:
    return any(parent is other or _inherits(parent, other) for parent in layer.parents)


def _layers(found: Layers) -> tuple[Class, ...]:
    """What is run again as one: layers, or their attentions and FFNs where a model holds those one by one."""
    return found.classes or found.checkpointed or found.pieces


def _missing(module: Module, found: Layers) -> Iterator[Missing]:
    if not module.pretrained:
        yield Missing(module.at(module.tree), "no class of this file stands below PreTrainedModel", True)
    if not _layers(found):
        yield Missing(module.at(module.tree), "no list of layers that attend is gone through in this file", True)
