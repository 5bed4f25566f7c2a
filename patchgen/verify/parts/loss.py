"""loss: a language model's loss without the logits of all tokens, with equal value and gradients.

The part works only in training with labels, so everything is checked there.  Errors are planted
around the functions of the part that a forward calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.verify.differences import REORDERED
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import (
    Hidden,
    PairFacts,
    PartCheck,
    Route,
    Scenario,
    defines,
    errors,
)

Loss = Callable[..., Tensor]
TRAINED = Scenario(train=True)


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's logits and loss, with its default attention and with eager attention."""
    eager = {"attn_implementation": "eager"}
    return Route("logits", REORDERED), Route("logits under eager", REORDERED, parent=eager)


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """No logits and no copy of the head are saved, or the head ran on labelled tokens only."""
    words = facts.config.get_text_config().vocab_size
    labels = facts.inputs["labels"]
    if not rows_of(parent, words) >= labels.numel():
        yield "the parent saves no logits either"
    if MASKED(facts):
        labelled = int((labels != -100).sum())
        if not any(
            len(shape) == 2 and shape[0] == labelled
            for shapes in variant.forwards.values()
            for shape in shapes
        ):
            yield f"no module ran on the {labelled} labelled tokens"
        return
    if saved := rows_of(variant, words):
        yield f"logits of {saved} tokens are saved"
    copies = [
        each.shape
        for each in variant.saved_storages
        if len(each.shape) == 2 and each.shape[0] == words
    ]
    if copies and not any(each.shape in copies for each in parent.saved_storages):
        yield f"a matrix as large as the head's is saved: {copies[0]}"


def rows_of(evidence: Evidence, words: int) -> int:
    """The bytes of the largest saved tensor whose last axis is the vocabulary."""
    return max(
        (prod(each.shape[:-1]) for each in evidence.saved_storages if each.shape[-1:] == (words,)),
        default=0,
    )


def forgotten_items(
    loss: Loss, *args: Any, num_items_in_batch: Any = None, **kwargs: Any
) -> Tensor:
    return loss(*args, **kwargs)


def lost_shift(loss: Loss, *args: Any, **kwargs: Any) -> Tensor:
    """Labels are taken as they are; those that are given shifted (Moonshine's decoder) move on."""
    given = kwargs.get("shift_labels")
    if given is not None:
        return loss(*args, **kwargs | {"shift_labels": given.roll(1, -1)})
    labels = kwargs["labels"] if "labels" in kwargs else args[3]
    return loss(*args, **kwargs | {"shift_labels": labels})


def lost_gradient(loss: Loss, states: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
    return loss(states.detach(), *rest, **kwargs)


def lost_words(
    loss: Loss, states: Tensor, entropies: partial[Any], *rest: Any, **kwargs: Any
) -> Tensor:
    """`entropies` is bound to the weight of the head."""
    weight = entropies.keywords["weight"]
    half = weight.shape[0] // 2
    cut = torch.cat([weight[:half], weight[half:].detach()])
    return loss(states, partial(entropies, weight=cut), *rest, **kwargs)


def lost_tokens(
    loss: Loss, states: Tensor, losses: Callable[..., Any], *rest: Any, **kwargs: Any
) -> Tensor:
    """The losses of the second half of the tokens are left out, as of a last chunk."""

    def first_half(*args: Any, **named: Any) -> tuple[Tensor, ...]:
        given, *others = losses(*args, **named)
        kept = torch.arange(given.shape[0], device=given.device) < given.shape[0] // 2
        return given * kept, *others

    return loss(states, first_half, *rest, **kwargs)


def scaled(loss: Loss, states: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
    return loss(2 * states, *rest, **kwargs)


def no_cap(losses: Callable[..., Any], *args: Any, **named: Any) -> Any:
    return losses(*args, **named | {"cap": 0.0})


def no_bias(losses: Callable[..., Any], *args: Any, bias: Tensor, **named: Any) -> Any:
    return losses(*args, bias=torch.zeros_like(bias), **named)


def neighbours_label(
    select: Callable[..., tuple[Tensor, Tensor]], *args: Any
) -> tuple[Tensor, Tensor]:
    states, labels = select(*args)
    return states, labels.roll(1)


def missing_tokens(
    select: Callable[..., tuple[Tensor, Tensor]], *args: Any
) -> tuple[Tensor, Tensor]:
    states, labels = select(*args)
    return states[::2], labels[::2]


CAUSAL, MASKED = defines("causal_loss"), defines("labelled_tokens")


def _caps(facts: PairFacts) -> bool:
    cap = getattr(facts.config.get_text_config(), "final_logit_softcapping", None)
    return CAUSAL(facts) and cap is not None


def _has_bias(facts: PairFacts) -> bool:
    head = facts.variant_class.forward
    return defines("biased_losses")(facts) and "biased_losses" in inspect.getsource(head)


def _leaves_logits_out(scenario: Scenario, changes: Mapping[str, Any]) -> bool:
    """With labels, unless the configuration asks for logits: `loss_chunk_size = 0`.

    On labelled tokens only in training; what a variant gives all the same is compared.
    """
    return scenario.labels and changes.get("loss_chunk_size") != 0


def _unshifted(facts: PairFacts) -> bool:
    return "shift_labels=labels" in inspect.getsource(facts.variant_class.forward)


PART_CHECK = PartCheck(
    part="loss",
    says="in training the loss is taken without logits of all tokens; value and gradients are the "
    "parent's",
    routes=routes,
    effect=effect,
    effect_scenario=TRAINED,
    hides=(Hidden("logits", "they are not computed with labels", _leaves_logits_out),),
    planted_errors=(
        *errors(
            "causal_loss",
            (
                "loss scaled by accumulation",
                "each micro-batch's loss is its own mean",
                forgotten_items,
            ),
            scenario=Scenario(train=True, accumulate=2),
            fits=lambda facts: CAUSAL(facts) and not _unshifted(facts),
        ),
        *errors(
            "causal_loss",
            ("shift lost", "each token has the label of another", lost_shift),
            ("states detached", "the head learns, the layers do not", lost_gradient),
            ("words without a gradient", "half of the words' rows do not learn", lost_words),
            ("last tokens left out", "half of the tokens do not count", lost_tokens),
            ("scaled", "logits are twice what they are", scaled),
            scenario=TRAINED,
        ),
        *errors(
            "linear_losses",
            ("soft-cap left out", "logits are not capped", no_cap),
            scenario=TRAINED,
            fits=_caps,
        ),
        *errors(
            "biased_losses",
            ("bias left out", "logits lack the head's bias", no_bias),
            scenario=TRAINED,
            fits=_has_bias,
        ),
        *errors(
            "labelled_tokens",
            ("label of the neighbour", "tokens have the label of the one before", neighbours_label),
            ("missing tokens", "every other labelled token does not count", missing_tokens),
            scenario=TRAINED,
        ),
    ),
)
