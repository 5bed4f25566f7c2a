"""stacked: the weights of experts that are modules are stacked in the experts' order, gradients go back to each.

Errors are planted around `stacked`, the function of the part that does it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.lab.claim import Claim, Observation, Plant, Route, Scene, Specimen, around, defines
from patchgen.lab.evidence import Evidence
from patchgen.lab.tolerance import REORDERED

OF_AN_EXPERT = re.compile(r"^gradient of .*\bexperts\.\w*\d+\.")


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's loop over its modules."""
    return (Route("its experts", REORDERED),)


def effect(parent: Evidence, variant: Evidence, specimen: Specimen) -> Iterator[str]:
    """Weights are stacked, and no expert runs as a module."""
    if not variant.functions["stack"]:
        yield "no weights were stacked"


def terms(observation: Observation, variant: PreTrainedModel) -> Observation:
    """Without the zeros of experts that no token chose: a loop gives them no gradient."""
    return {name: each for name, each in observation.items() if not OF_AN_EXPERT.match(name) or bool(each.any())}


def reversed_order(stack: Callable[..., Tensor], modules: Any, name: str) -> Tensor:
    return stack(list(modules)[::-1], name)


def one_for_all(stack: Callable[..., Tensor], modules: Any, name: str) -> Tensor:
    return stack([next(iter(modules))] * len(list(modules)), name)


def constants(stack: Callable[..., Tensor], modules: Any, name: str) -> Tensor:
    with torch.no_grad():
        return stack(modules, name)


CLAIM = Claim(
    part="stacked",
    says="experts that are modules run together, and checkpoints and parameters stay what they are",
    routes=routes,
    effect=effect,
    terms=terms,
    shown_in=Scene(train=True),
    same_draws=False,
    plants=(
        Plant(
            "order reversed", "experts run for each other", around("stacked", reversed_order), fits=defines("stacked")
        ),
        Plant("one for all", "the first expert runs for all", around("stacked", one_for_all), fits=defines("stacked")),
        Plant("weights as constants", "experts do not learn", around("stacked", constants), fits=defines("stacked")),
    ),
)
