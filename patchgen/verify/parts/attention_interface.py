"""attention_interface: the model calls transformers' attention interface, with its masks.

This is no part of patchgen: it is checked if a diff calls the interface.  Errors are planted around
transformers' own function for "sdpa".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from patchgen.verify.compare.tolerance import REORDERED
from patchgen.verify.parts.part_check import PairFacts, PartCheck, PlantedError, Route
from patchgen.verify.parts.scenario import Scenario
from patchgen.verify.parts.sdpa import effect

Given = tuple[Tensor, Tensor | None]
Attention = Callable[..., Given]


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's own scores.  Another case checks that "eager" equals them bit for bit."""
    return (
        Route(
            "eager", REORDERED, {"attn_implementation": "eager"}, {"attn_implementation": "sdpa"}
        ),
    )


def _around_sdpa(
    wrong: Callable[..., Given],
) -> Callable[[PreTrainedModel], AbstractContextManager[None]]:
    @contextmanager
    def apply(model: PreTrainedModel) -> Iterator[None]:
        right = ALL_ATTENTION_FUNCTIONS["sdpa"]
        ALL_ATTENTION_FUNCTIONS["sdpa"] = lambda *args, **kwargs: wrong(right, *args, **kwargs)
        try:
            yield
        finally:
            del ALL_ATTENTION_FUNCTIONS["sdpa"]

    return apply


def wrong_scale(
    right: Attention, module: nn.Module, query: Tensor, *rest: Any, **given: Any
) -> Given:
    scaling = query.shape[-1] ** -0.5 if given.get("scaling") is None else given["scaling"]
    return right(module, query, *rest, **{**given, "scaling": scaling * 2})


def forgotten_mask(
    right: Attention,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    **given: Any,
) -> Given:
    return right(module, query, key, value, None, **given)


def lost_causality(
    right: Attention,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    **given: Any,
) -> Given:
    """Drop the causal order, whether the flag or the mask carries it (as with a bias of scores)."""
    if mask is not None:
        shape = (query.shape[2], key.shape[2])
        later = torch.ones(shape, dtype=torch.bool, device=query.device).triu(
            shape[1] - shape[0] + 1
        )
        mask = (
            mask | later
            if mask.dtype == torch.bool
            else mask.masked_fill(later & (mask <= -1e4), 0.0)
        )
    return right(module, query, key, value, mask, **{**given, "is_causal": False})


def unseen_self(
    right: Attention,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    **given: Any,
) -> Given:
    """A mask off by one: no query sees its own key, except the first."""
    causal = given.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    queries, keys = query.shape[2], key.shape[2]
    places = torch.arange(keys, device=query.device)
    visible = places[keys - queries :, None] != places
    visible = visible.tril(keys - queries) if causal and mask is None else visible
    visible[0, 0] = True  # otherwise it would see no key
    if mask is None:
        mask = visible[None, None]
    elif mask.dtype == torch.bool:
        mask = mask & visible
    else:
        mask = mask.masked_fill(~visible, torch.finfo(mask.dtype).min)
    return right(module, query, key, value, mask, **given)


def swapped_heads(
    right: Attention,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *rest: Any,
    **given: Any,
) -> Given:
    return right(module, query, key.flip(1), value.flip(1), *rest, **given)


def _is_causal(facts: PairFacts) -> bool:
    return facts.causal


def _is_not_causal(facts: PairFacts) -> bool:
    return not facts.causal


PART_CHECK = PartCheck(
    part="attention_interface",
    says="attention is what transformers' interface gives, and computes what the parent's does",
    routes=routes,
    effect=effect,
    attentions=("sdpa", "eager"),
    by_flags=True,
    weights_under="eager",
    planted_errors=(
        PlantedError("scale", "scores are twice as large", _around_sdpa(wrong_scale)),
        PlantedError(
            "forgotten mask",
            "padding on the left is attended to",
            _around_sdpa(forgotten_mask),
            scenario=Scenario(rows="left"),
        ),
        PlantedError(
            "forgotten padding",
            "padding on the right is attended to",
            _around_sdpa(forgotten_mask),
            scenario=Scenario(rows="right"),
            fits=_is_not_causal,  # a causal query before the padding does not see it anyway
        ),
        PlantedError(
            "lost causality", "later tokens are seen", _around_sdpa(lost_causality), fits=_is_causal
        ),
        PlantedError("mask off by one", "no token sees itself", _around_sdpa(unseen_self)),
        PlantedError(
            "heads swapped", "each query reads another's keys", _around_sdpa(swapped_heads)
        ),
    ),
)
