"""grouped: grouped GEMMs run the experts, and give each token what the parent's loop gives it.

This is no part of patchgen: it is checked if a diff uses transformers' grouped experts.  Errors are
planted in the modules that hold stacked weights, whichever implementation runs them, because torch
has no grouped GEMM in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from patchgen.verify.differences import REFORMULATED
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import PairFacts, PartCheck, PlantedError, Route, Scenario

PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's own experts, against the variant's grouped GEMMs and against its eager loop.

    Sums of more than two terms are in another order, and rounded once.
    """
    loop = {"experts_implementation": "eager"}
    return Route("its experts", REFORMULATED), Route(
        "its experts, the variant's eager", REFORMULATED, variant=loop
    )


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Grouped GEMMs ran, and no more products beside them than the parent has."""
    grouped = variant.kernels["aten._grouped_mm"]
    if not grouped or grouped % 3:  # one forward, two backward
        yield f"{grouped} grouped GEMMs"
    ours, theirs = (sum(each.kernels[name] for name in PRODUCTS) for each in (variant, parent))
    if ours > theirs:
        yield f"{ours} other products where the parent has {theirs}"


def stacks_of(model: nn.Module) -> Iterator[tuple[nn.Module, list[nn.Parameter]]]:
    """Each module of stacked weights, with those that are matrices."""
    for module in model.modules():
        found = [each for each in module.parameters(recurse=False) if each.dim() == 3]
        if found and not isinstance(module, nn.modules.conv._ConvNd):
            yield module, found


@contextmanager
def swapped(model: PreTrainedModel) -> Iterator[None]:
    with torch.no_grad():
        for _, weights in stacks_of(model):
            for weight in weights:
                weight.copy_(weight.roll(1, 0))
    yield


@contextmanager
def moved(model: PreTrainedModel) -> Iterator[None]:
    """The output of the experts goes to the next token."""
    hooks = [module.register_forward_hook(_one_behind) for module, _ in stacks_of(model)]
    yield
    for hook in hooks:
        hook.remove()


def _one_behind(module: nn.Module, args: Any, out: Tensor) -> Tensor:
    return out.roll(1, 0)


@contextmanager
def first_does_not_learn(model: PreTrainedModel) -> Iterator[None]:
    hooks = [
        weight.register_hook(_without_first)
        for _, weights in stacks_of(model)
        for weight in weights
    ]
    yield
    for hook in hooks:
        hook.remove()


def _without_first(gradient: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(gradient[:1]), gradient[1:]])


PART_CHECK = PartCheck(
    part="grouped",
    says="grouped GEMMs run all experts, and compute what they do one after the other",
    routes=routes,
    effect=effect,
    effect_scenario=Scenario(train=True),
    same_rng_order=False,  # dropout within experts is drawn for all of them at once
    planted_errors=(
        PlantedError(
            "experts swapped", "each expert runs with the weights of the one before", swapped
        ),
        PlantedError("not brought back", "tokens get what others were given", moved),
        PlantedError(
            "gradient of an expert lost",
            "the loss is right, the first expert does not learn",
            first_does_not_learn,
        ),
    ),
)
