"""liger: kernels of Liger compute what the parent's statements do, in float32.

The kernels run on a GPU.  Errors are planted around the functions of Liger that the generated file
calls, and around the loss of the part.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from patchgen.verify.differences import IN_FLOAT32
from patchgen.verify.models.build import is_interpreted
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.loss import (
    TRAINED,
    forgotten_items,
    lost_gradient,
    lost_shift,
    rows_of,
    scaled,
)
from patchgen.verify.parts.part_check import (
    Hidden,
    PairFacts,
    PartCheck,
    PlantedError,
    Route,
    Scenario,
    defines,
    errors,
    replaced,
)


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's statements, with its default attention and with eager attention."""
    eager = {"attn_implementation": "eager"}
    return Route("statements", IN_FLOAT32), Route(
        "statements under eager", IN_FLOAT32, parent=eager
    )


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Kernels ran in place of functions of torch, and no logits are saved where the loss is one."""
    ours, theirs = sum(variant.functions.values()), sum(parent.functions.values())
    # Triton's interpreter runs a kernel as many functions of torch.
    if ours >= theirs and not is_interpreted():
        yield f"{ours} functions of torch were called where the parent calls {theirs}"
    if LOSS(facts) and (saved := rows_of(variant, facts.config.get_text_config().vocab_size)):
        yield f"logits of {saved} tokens are saved"


def _plant(name: str, says: str, function: str, wrong: Callable[..., Any]) -> PlantedError:
    """An error in each call of a function of Liger."""

    def make(right: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: wrong(right, *args, **kwargs)

    def apply(model: PreTrainedModel) -> AbstractContextManager[None]:
        return replaced(sys.modules[type(model).__module__].liger, function, make)

    def fits(facts: PairFacts) -> bool:
        return f"liger.{function}(" in inspect.getsource(facts.module)

    return PlantedError(name, says, apply, scenario=TRAINED, fits=fits)


def no_weight(
    norm: Callable[..., Tensor], x: Tensor, weight: Tensor, *rest: Any, **given: Any
) -> Any:
    return norm(x, weight * 0 + 1 - given.get("offset", 0.0), *rest, **given)


def backwards(rotate: Callable[..., Any], q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
    return rotate(q, k, cos, -sin) if q.shape[-2] == 1 else rotate(q, k, cos.flip(-2), sin.flip(-2))


def swapped(product: Callable[..., Tensor], gate: Tensor, up: Tensor) -> Tensor:
    return product(up, gate)


LOSS = defines("liger_causal_loss")


PART_CHECK = PartCheck(
    part="liger",
    says="kernels of Liger compute what the parent's statements do, in float32",
    routes=routes,
    effect=effect,
    effect_scenario=TRAINED,
    hides=(
        Hidden(
            "logits",
            "they are not computed in training with labels",
            lambda scenario, settings: scenario.train and scenario.labels,
        ),
    ),
    planted_errors=(
        _plant("weight left out", "norms have no weight", "liger_rms_norm", no_weight),
        _plant(
            "positions reversed", "the last token is rotated as the first", "liger_rope", backwards
        ),
        *(
            _plant("halves swapped", "the gate is multiplied by the activation", kernel, swapped)
            for kernel in ("liger_swiglu", "liger_geglu")
        ),
        *errors(
            "liger_causal_loss",
            (
                "loss scaled by accumulation",
                "each micro-batch's loss is its own mean",
                forgotten_items,
            ),
            scenario=Scenario(train=True, accumulate=2),
        ),
        *errors(
            "liger_causal_loss",
            ("shift lost", "each token has the label of another", lost_shift),
            ("states detached", "the head learns, the layers do not", lost_gradient),
            ("scaled", "logits are twice what they are", scaled),
            scenario=TRAINED,
        ),
    ),
)
