"""checkpoint: layers run again in the backward pass, and compute the same as before.

This is checked if a diff turns checkpointing on, written by `patchgen new` or by hand.  Errors are
planted around the function that transformers runs a layer with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from os.path import commonprefix
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel, modeling_utils
from transformers.modeling_layers import GradientCheckpointingLayer

from patchgen.runtime.checkpointing import keep_products
from patchgen.verify.differences import EQUAL, REORDERED
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import (
    PairFacts,
    PartCheck,
    PlantedError,
    Route,
    Scenario,
    saves_less,
    wrapped,
)

AGAIN = Scenario(train=True, checkpointing={})
WITH_DROPOUT = Scenario(train=True, dropout=0.4, checkpointing={})


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """Bit for bit what the parent computes without checkpointing, with its default attention."""
    # No attention is named: a model with SDPA can have a backbone without, and refuses the name.
    # XLM computes with an empty cache that it makes itself; a layer that is run again gets none.
    makes_a_cache = "cache" in inspect.signature(parent_class.forward).parameters
    same = Route("its own attention", REORDERED if makes_a_cache else EQUAL)
    eager = Route("eager", REORDERED, {"attn_implementation": "eager"})
    return (same, eager) if parent_class._supports_sdpa else (same,)


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Every attention of a layer ran twice, and fewer bytes were saved."""
    checkpointed = {
        name
        for name, one in vars(facts.module).items()
        if isinstance(one, type) and issubclass(one, GradientCheckpointingLayer)
    }
    own = frozenset(name for name in parent.forwards if in_variant(name, facts) in checkpointed)
    once, ran = _attentions(parent), _attentions(variant)
    # AIMv2 pools by an attention outside of its layers; Bamba has layers without one.
    layers = sum(map(parent.runs_of, own))
    if ran != 2 * once and not (layers and ran - once >= layers) or not (once or layers):
        yield f"{once} attentions ran {ran} times, not twice each, in {layers} layers"
    # Not every module of a layer does: the recompute ends as soon as it has what was saved.
    again = {n: variant.runs_of(in_variant(n, facts)) - parent.runs_of(n) for n in parent.forwards}
    if not any(
        more > 0 and more in (parent.runs_of(name), parent.runs_inside(name, own))
        for name, more in again.items()
    ):
        yield "no class of modules ran its forward twice as often"
    yield from saves_less(parent, variant)


def _attentions(evidence: Evidence) -> int:
    """How many attentions ran, and softmaxes of routers, recomputation included.

    By kernels: what Python calls in the backward pass is not traced.  SDPA takes a softmax where a
    mask has a gradient, which the bias of T5 has under checkpointing alone.
    """
    softmaxes = ("aten._softmax", "aten._safe_softmax")
    return sum(
        count
        for name, count in evidence.kernels.items()
        if name in softmaxes or ("backward" not in name and "_scaled_dot_product_" in name)
    )


def in_variant(class_name: str, facts: PairFacts) -> str:
    """The name of a parent's class in the variant, which may have a prefix of its own."""
    theirs, ours = facts.parent_class.__name__, facts.variant_class.__name__
    ending = commonprefix([theirs[::-1], ours[::-1]])[::-1]
    prefix = theirs.removesuffix(ending)
    if not class_name.startswith(prefix):
        return class_name
    return ours.removesuffix(ending) + class_name.removeprefix(prefix)


def reseeded(right: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return right(*args, **{**kwargs, "preserve_rng_state": False})


def cut_off(right: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
    # Of states that are given by keyword too.
    named = {name: _detached(value) for name, value in getattr(function, "keywords", {}).items()}
    run = partial(function.func, *function.args, **named) if named else function
    return right(run, *map(_detached, args), **kwargs)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def has_dropout(facts: PairFacts) -> bool:
    settings = facts.config.to_dict().items()
    return any("drop" in name and isinstance(value, float) for name, value in settings)


def _around_checkpoint(wrong: Callable[..., Any]) -> Any:
    return lambda model: wrapped(modeling_utils, "checkpoint", wrong)


_RESEEDED, _CUT = _around_checkpoint(reseeded), _around_checkpoint(cut_off)
_MASKS = "the recompute draws other dropout masks"
_BELOW = "nothing below a layer gets a gradient from it"
CHECKPOINT = PartCheck(
    part="checkpoint",
    routes=routes,
    effect=effect,
    effect_scenario=AGAIN,
    checkpointing=({}, {"context_fn": keep_products}),
    planted_errors=(
        PlantedError("dropout reseeded", _MASKS, _RESEEDED, WITH_DROPOUT, has_dropout),
        PlantedError("gradient cut off", _BELOW, _CUT, AGAIN),
    ),
)
