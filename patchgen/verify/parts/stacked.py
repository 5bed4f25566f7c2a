"""stacked: weights have another layout, and checkpoints stay the parent's.

Gradients are compared in the parent's terms: they are split as transformers splits weights that it
saves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from patchgen.verify.differences import REORDERED
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import (
    Observation,
    PairFacts,
    PartCheck,
    PlantedError,
    Route,
    Scenario,
)

GRADIENT = "gradient of "
OF_AN_EXPERT = re.compile(r"\bexperts\.\w*\d+\.")


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    return (Route("its weights", REORDERED),)


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Parameters are fewer: some of the parent's are one."""
    theirs, ours = (len(list(each.paths[0][0].parameters())) for each in (parent, variant))
    if ours >= theirs:
        yield f"{ours} parameters where the parent has {theirs}"


def to_parent_names(observed: Observation, variant: PreTrainedModel) -> Observation:
    """Gradients under the names and in the layout of the parent's checkpoint.

    Without the zeros of experts that no token chose: a loop over modules gives them no gradient.
    """
    gradients = {
        name.removeprefix(GRADIENT): each
        for name, each in observed.items()
        if name.startswith(GRADIENT)
    }
    reverted = revert_weight_conversion(variant, gradients)
    renamed = {
        f"{GRADIENT}{name}": each
        for name, each in reverted.items()
        if bool(each.any()) or not OF_AN_EXPERT.search(name)
    }
    return {
        name: each for name, each in observed.items() if not name.startswith(GRADIENT)
    } | renamed


@contextmanager
def in_another_order(model: PreTrainedModel) -> Iterator[None]:
    """Rows of each stack are moved by half of them."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if [*revert_weight_conversion(model, {name: weight})] != [name]:
                weight.copy_(weight.roll(weight.shape[0] // 2, 0))
    yield


PART_CHECK = PartCheck(
    part="stacked",
    says="weights are laid out in another way; checkpoints are the parent's, read and written",
    routes=routes,
    effect=effect,
    terms=to_parent_names,
    effect_scenario=Scenario(train=True),
    planted_errors=(
        PlantedError(
            "parts in another order",
            "what was put together is taken for each other",
            in_another_order,
        ),
    ),
)
