"""experts: keep one product per token and expert for the backward pass, and recompute the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.verify.compare.tolerance import REFORMULATED
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import PairFacts, PartCheck, PlantedError, Route
from patchgen.verify.parts.planting import around, defines
from patchgen.verify.parts.scenario import Scenario

Function = Callable[..., Any]
GROUPED = "aten._grouped_mm"


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's own experts; the gradient is that of another formula."""
    return (Route("its experts", REFORMULATED),)


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Less is saved than by the parent, and no product is made again."""
    if variant.saved_bytes >= parent.saved_bytes:
        yield f"{variant.saved_bytes} bytes were saved where the parent saves {parent.saved_bytes}"
    ours, theirs = variant.kernels[GROUPED], parent.kernels[GROUPED]
    if theirs and ours > theirs:
        yield f"{ours} grouped products where the parent has {theirs}"


def no_weights(add: Function, gate_up_PG: Tensor, gates_TK: Tensor, *others: Any) -> Tensor:
    return add(gate_up_PG, torch.ones_like(gates_TK), *others)


def swapped_weights(add: Function, gate_up_PG: Tensor, gates_TK: Tensor, *others: Any) -> Tensor:
    return add(gate_up_PG, gates_TK.flip(-1), *others)


def weights_without_gradient(
    weigh: Function, gate_up_PG: Tensor, gates_P: Tensor, act: Any
) -> Tensor:
    """In the backward pass alone, so that what experts learn is not weighed."""
    return weigh(gate_up_PG, torch.ones_like(gates_P) + 0 * gates_P, act)


def first_without_gradient(outer: Function, *args: Any) -> Tensor:
    return torch.cat([torch.zeros_like(outer(*args)[:1]), outer(*args)[1:]])


def frozen_router(run: Function, context: Any, grad_TD: Tensor) -> tuple[Any, ...]:
    grad_x, grad_gates, *others = run(context, grad_TD)
    return grad_x, torch.zeros_like(grad_gates), *others


PART_CHECK = PartCheck(
    part="experts",
    says="of each token in an expert one product is kept, the rest is made again; the function is "
    "the parent's",
    routes=routes,
    effect=effect,
    effect_scenario=Scenario(train=True),
    planted_errors=(
        PlantedError(
            "weights left out",
            "every chosen expert counts alike",
            around("summed", no_weights),
            fits=defines("summed"),
        ),
        PlantedError(
            "weights swapped",
            "each expert of a token has the weight of another",
            around("summed", swapped_weights),
            fits=defines("summed"),
        ),
        PlantedError(
            "weights left out of gradients",
            "the loss is right, each expert learns as if it alone were chosen",
            around("weighted", weights_without_gradient),
            fits=defines("weighted"),
        ),
        PlantedError(
            "gradient of the first expert lost",
            "the loss is right, one expert does not learn",
            around("grouped_outer", first_without_gradient),
            fits=defines("grouped_outer"),
        ),
        PlantedError(
            "router without gradient",
            "the loss is right, the router does not learn from the experts",
            around("backward", frozen_router, within="Lean"),
            fits=defines("Lean"),
        ),
    ),
)
