"""The loss of a language model without the logits of all tokens: the parts `loss` and `liger`.

Value and gradients are the parent's.  The parts work only in training with labels, so all is
checked there.  Errors are planted around the functions that a forward calls.  Kernels of Liger,
which run on a GPU, compute what the parent's statements do, in float32; errors are planted around
the functions of Liger that the generated file calls too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

from patchgen.verify.differences import IN_FLOAT32, REORDERED
from patchgen.verify.models.build import is_interpreted
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import (
    Hidden,
    PairFacts,
    PartCheck,
    PlantedError,
    Scenario,
    beside_eager,
    defines,
    errors,
)

TRAINED = Scenario(train=True)
CAUSAL, MASKED = defines("causal_loss"), defines("labelled_tokens")
LIGER_LOSS = defines("liger_causal_loss")


def loss_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """No logits and no copy of the head are saved, or the head ran on labelled tokens only."""
    words = facts.config.get_text_config().vocab_size
    labels = facts.inputs["labels"]
    if not rows_of(parent, words) >= labels.numel():
        yield "the parent saves no logits either"
    if MASKED(facts):
        labelled = int((labels != -100).sum())
        shapes = (shape for ran in variant.forwards.values() for shape in ran)
        if not any(len(shape) == 2 and shape[0] == labelled for shape in shapes):
            yield f"no module ran on the {labelled} labelled tokens"
        return
    if saved := rows_of(variant, words):
        yield f"logits of {saved} tokens are saved"
    matrices = [each.shape for each in variant.saved_storages if len(each.shape) == 2]
    copies = [shape for shape in matrices if shape[0] == words]
    if copies and not any(each.shape in copies for each in parent.saved_storages):
        yield f"a matrix as large as the head's is saved: {copies[0]}"


def rows_of(evidence: Evidence, words: int) -> int:
    """The rows of the largest saved tensor whose last axis is the vocabulary."""
    shapes = (each.shape for each in evidence.saved_storages if each.shape[-1:] == (words,))
    return max((prod(shape[:-1]) for shape in shapes), default=0)


def liger_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Kernels ran in place of functions of torch, and no logits are saved where the loss is one."""
    ours, theirs = sum(variant.functions.values()), sum(parent.functions.values())
    # Triton's interpreter runs a kernel as many functions of torch.
    if ours >= theirs and not is_interpreted():
        yield f"{ours} functions of torch were called where the parent calls {theirs}"
    words = facts.config.get_text_config().vocab_size
    if LIGER_LOSS(facts) and (saved := rows_of(variant, words)):
        yield f"logits of {saved} tokens are saved"


# --- errors

Loss = Callable[..., Tensor]


def _forgotten_items(loss: Loss, *args: Any, num_items_in_batch: Any = None, **how: Any) -> Tensor:
    return loss(*args, **how)


def _lost_shift(loss: Loss, *args: Any, **kwargs: Any) -> Tensor:
    """Labels are taken as they are; those that are given shifted (Moonshine's decoder) move on."""
    given = kwargs.get("shift_labels")
    if given is not None:
        return loss(*args, **kwargs | {"shift_labels": given.roll(1, -1)})
    labels = kwargs["labels"] if "labels" in kwargs else args[3]
    return loss(*args, **kwargs | {"shift_labels": labels})


def _lost_words(loss: Loss, states: Tensor, entropies: Any, *rest: Any, **kwargs: Any) -> Tensor:
    """`entropies` is bound to the weight of the head."""
    weight = entropies.keywords["weight"]
    half = weight.shape[0] // 2
    cut = torch.cat([weight[:half], weight[half:].detach()])
    return loss(states, partial(entropies, weight=cut), *rest, **kwargs)


def _neighbours_label(select: Callable[..., Any], *args: Any) -> tuple[Tensor, Tensor]:
    states, labels = select(*args)
    return states, labels.roll(1)


def _no_weight(norm: Any, x: Tensor, weight: Tensor, *rest: Any, **given: Any) -> Any:
    return norm(x, weight * 0 + 1 - given.get("offset", 0.0), *rest, **given)


def _backwards(rotate: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
    return rotate(q, k, cos, -sin) if q.shape[-2] == 1 else rotate(q, k, cos.flip(-2), sin.flip(-2))


def _swapped(product: Callable[..., Tensor], gate: Tensor, up: Tensor) -> Tensor:
    return product(up, gate)


def _shifts(facts: PairFacts) -> bool:
    given = "shift_labels=labels" in inspect.getsource(facts.variant_class.forward)
    return CAUSAL(facts) and not given


_ITEMS = (
    "loss scaled by accumulation",
    "each micro-batch's loss is its own mean",
    _forgotten_items,
)
_SHIFT = ("shift lost", "each token has the label of another", _lost_shift)
_NEIGHBOUR = "tokens have the label of the one before"
FEW_PLACES = 0.9
ACCUMULATED = Scenario(train=True, accumulate=2)
LOSS = PartCheck(
    part="loss",
    routes=lambda parent_class: beside_eager("logits", REORDERED, {}, {}),
    effect=loss_effect,
    # With labels, unless the configuration asks for logits: `loss_chunk_size = 0`.  On labelled
    # tokens only in training; what a variant gives all the same is compared.
    hides=(
        Hidden(
            "logits",
            "they are not computed with labels",
            lambda scenario, changes: scenario.labels and changes.get("loss_chunk_size") != 0,
        ),
    ),
    # Where more tokens have a label than there are places: a loss of some would be silently wrong.
    refuses_a_loss=lambda changes: (changes.get("max_labelled_fraction") or 1) < FEW_PLACES,
    planted_errors=(
        *errors("causal_loss", _ITEMS, scenario=ACCUMULATED, fits=_shifts),
        *errors(
            "causal_loss",
            _SHIFT,
            ("words without a gradient", "half of the words' rows do not learn", _lost_words),
            scenario=TRAINED,
        ),
        *errors(
            "labelled_tokens",
            ("label of the neighbour", _NEIGHBOUR, _neighbours_label),
            scenario=TRAINED,
        ),
    ),
)


def _in_liger(
    function: str, name: str, says: str, wrong: Callable[..., Any]
) -> tuple[PlantedError, ...]:
    """An error in each call of a function of Liger."""

    def fits(facts: PairFacts) -> bool:
        return f"liger.{function}(" in inspect.getsource(facts.module)

    return errors(function, (name, says, wrong), scenario=TRAINED, within="liger", fits=fits)


_GATE = ("halves swapped", "the gate is multiplied by the activation", _swapped)
LIGER = PartCheck(
    part="liger",
    routes=lambda parent_class: beside_eager("statements", IN_FLOAT32, {}, {}),
    effect=liger_effect,
    hides=(
        Hidden(
            "logits",
            "they are not computed in training with labels",
            lambda scenario, changes: scenario.train and scenario.labels,
        ),
    ),
    planted_errors=(
        *_in_liger("liger_rms_norm", "weight left out", "norms have no weight", _no_weight),
        *_in_liger("liger_rope", "positions reversed", "the last is as the first", _backwards),
        *_in_liger("liger_swiglu", *_GATE),
        *_in_liger("liger_geglu", *_GATE),
        *errors("liger_causal_loss", _ITEMS, scenario=ACCUMULATED),
        *errors("liger_causal_loss", _SHIFT, scenario=TRAINED),
    ),
)
