"""gradient_checkpointing: layers run again by transformers' own means, and not so in the parent.

No part of patchgen: it is claimed of whatever the diff turns it on in.  The errors are planted
around the function that transformers runs a layer by.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel, modeling_utils

from patchgen.lab.claim import Claim, Plant, Scene, Specimen, replaced
from patchgen.lab.claims.checkpoint import DROPOUT, effect, routes

Checkpoint = Callable[..., Any]


def _around_checkpoint(
    wrong: Callable[..., Any],
) -> Callable[[PreTrainedModel], AbstractContextManager[None]]:
    def apply(model: PreTrainedModel) -> AbstractContextManager[None]:
        def make(right: Checkpoint) -> Checkpoint:
            return lambda *args, **kwargs: wrong(right, *args, **kwargs)

        return replaced(modeling_utils, "checkpoint", make)

    return apply


def reseeded(right: Checkpoint, *args: Any, **kwargs: Any) -> Any:
    return right(*args, **{**kwargs, "preserve_rng_state": False})


def cut_off(right: Checkpoint, function: Any, *args: Any, **kwargs: Any) -> Any:
    cut = (each.detach() if isinstance(each, Tensor) else each for each in args)
    return right(function, *cut, **kwargs)


def has_dropout(specimen: Specimen) -> bool:
    settings = specimen.config.to_dict().items()
    return any("drop" in name and isinstance(value, float) for name, value in settings)


CLAIM = Claim(
    part="gradient_checkpointing",
    says="layers run again in the backward pass, and compute what the parent computes",
    routes=routes,
    effect=effect,
    shown_in=Scene(train=True, checkpointing={}),
    plants=(
        Plant(
            "dropout reseeded",
            "the recompute draws other dropout masks",
            _around_checkpoint(reseeded),
            scene=Scene(train=True, dropout=DROPOUT, checkpointing={}),
            fits=has_dropout,
        ),
        Plant(
            "gradient cut off",
            "nothing below a layer gets a gradient from it",
            _around_checkpoint(cut_off),
            scene=Scene(train=True, checkpointing={}),
        ),
    ),
)
