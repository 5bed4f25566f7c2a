"""fused: several linear layers are one matrix product, and the tanh form of GELU is one operation.

Gradients of a fused weight are compared with those of the parent's weights, part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from patchgen.verify.compare.tolerance import REFORMULATED
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import Observation, PairFacts, PartCheck, PlantedError, Route
from patchgen.verify.parts.planting import around, defines

Function = Callable[..., Any]


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    eager = {"attn_implementation": "eager"}
    return Route("its layers", REFORMULATED), Route(
        "its layers under eager", REFORMULATED, eager, eager
    )


def fused_in(model: nn.Module) -> dict[str, dict[str, int]]:
    """The parts of each fused layer of `model`, by its name."""
    return {
        name: module.parts
        for name, module in model.named_modules()
        if type(module).__name__ == "FusedLinear"
    }


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """A fused layer with n parts calls `linear` n - 1 times less; GELU is one operation.

    Of a model of images and text, the layers of one may not run.
    """
    ran = [
        len(path[-1].parts) for path in variant.paths if type(path[-1]).__name__ == "FusedLinear"
    ]
    fewer = parent.functions["linear"] - variant.functions["linear"]
    # Another part, such as the loss, may also call `linear` less.
    if defines("FusedLinear")(facts) and fewer != sum(ran) - len(ran):
        yield f"{fewer} linear layers fewer, where {len(ran)} of {sum(ran)} parts ran"
    ours = variant.functions["gelu"] - parent.functions["gelu"]
    theirs = parent.functions["tanh"] - variant.functions["tanh"]
    if defines("TANH_GELUS")(facts) and parent.functions["tanh"]:
        if ours != theirs or not ours:
            yield f"{ours} GELUs by one operation, where the parent writes out {theirs}"
        if variant.saved_bytes >= parent.saved_bytes:
            saved = f"{variant.saved_bytes} bytes were saved"
            yield f"{saved} where the parent saves {parent.saved_bytes}"
    if not ran and not ours:
        yield "no fused layer ran, and no GELU by one operation"


def to_parent_names(observed: Observation, variant: PreTrainedModel) -> Observation:
    """Gradients of fused parameters under the names that their parts have in the parent."""
    renamed: dict[str, Tensor] = {}
    layers = fused_in(variant)
    for name, tensor in observed.items():
        layer, _, kind = name.removeprefix("gradient of ").rpartition(".")
        if not name.startswith("gradient of ") or layer not in layers:
            renamed[name] = tensor
            continue
        owner = layer.rpartition(".")[0]
        parts = zip(layers[layer], tensor.split(tuple(layers[layer].values())), strict=True)
        renamed |= {f"gradient of {owner}.{part}.{kind}": gradient for part, gradient in parts}
    return renamed


@contextmanager
def last_for_each_other(model: PreTrainedModel) -> Iterator[None]:
    """The last two parts of each layer, which are equally wide, have each other's rows."""
    with torch.no_grad():
        for name in fused_in(model):
            for weight in model.get_submodule(name).parameters():
                *before, width = model.get_submodule(name).parts.values()
                one, two = weight[-2 * width : -width].clone(), weight[-width:].clone()
                if before[-1] == width:
                    weight[-2 * width : -width], weight[-width:] = two, one
    yield


def no_bias(forward: Function, layer: Any, x: Tensor) -> Any:
    return forward(layer, x) - layer.bias


@contextmanager
def no_activation(model: PreTrainedModel) -> Iterator[None]:
    for module in model.modules():
        if type(module).__name__ == "GELUTanh":
            module.act = nn.Identity()
    yield


def has_bias(facts: PairFacts) -> bool:
    if not defines("FusedLinear")(facts):
        return False
    with torch.device("meta"):
        model = facts.variant_class(facts.config)
    return all(
        getattr(model.get_submodule(name), "bias", None) is not None for name in fused_in(model)
    )


def has_tanh_gelu(facts: PairFacts) -> bool:
    return defines("TANH_GELUS")(facts) and any(
        getattr(facts.config, name, None) in facts.module.TANH_GELUS
        for name in ("activation_function", "hidden_act", "hidden_activation")
    )


PART_CHECK = PartCheck(
    part="fused",
    says="linear layers of one input are one product, and GELU one operation; the function is the "
    "parent's",
    routes=routes,
    effect=effect,
    terms=to_parent_names,
    joins_weights=True,
    planted_errors=(
        PlantedError(
            "parts swapped",
            "values are taken for keys, up for gate",
            last_for_each_other,
            fits=defines("FusedLinear"),
        ),
        PlantedError(
            "bias dropped",
            "the fused projections lack their bias",
            around("forward", no_bias, within="FusedLinear"),
            fits=has_bias,
        ),
        PlantedError("activation left out", "an MLP is linear", no_activation, fits=has_tanh_gelu),
    ),
)
