"""sdpa: attention is one call of `scaled_dot_product_attention`, of the same function as before.

The errors are planted around `sdpa`, the function of the part that makes the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.verify.compare.tolerance import EQUAL, REORDERED
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import PairFacts, PartCheck, PlantedError, Route
from patchgen.verify.parts.planting import around, defines
from patchgen.verify.parts.scenario import Scenario

Sdpa = Callable[..., Tensor]


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """Bit for bit transformers' own "sdpa" if it has that; "eager" up to rounding."""
    eager = Route(
        "eager", REORDERED, {"attn_implementation": "eager"}, {"attn_implementation": "sdpa"}
    )
    same = Route("sdpa", EQUAL, {"attn_implementation": "sdpa"}, {"attn_implementation": "sdpa"})
    return (same, eager) if parent_class._supports_sdpa else (eager,)


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """As many calls of SDPA as the parent has attentions, and no softmax over scores."""
    # Attention over patches, or over every other token, has lengths that only its calls tell of.
    keys = {*facts.lengths, *(call.key[-2] for call in variant.trace.sdpa)}
    calls, wanted = (
        len(variant.trace.sdpa),
        len(parent.trace.sdpa) + parent.trace.softmaxes_over(*keys),
    )
    if calls != wanted or not calls:
        yield f"{calls} calls of SDPA for {wanted} attentions"
    if by_hand := variant.trace.softmaxes_over(*keys):
        yield f"{by_hand} softmaxes over scores"
    # Otherwise nothing of what was compared depends on where attention looks.
    if spread := [call.scores_std for call in variant.trace.sdpa if call.scores_std < 1 / 3]:
        yield f"scores of deviation {min(spread):.2f}: an error in them could not be seen"


def wrong_scale(sdpa: Sdpa, *args: Any, scaling: float | None, **kwargs: Any) -> Tensor:
    scaling = args[0].shape[-1] ** -0.5 if scaling is None else scaling
    return sdpa(*args, scaling=scaling * 2, **kwargs)


def forgotten_mask(
    sdpa: Sdpa, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **kwargs: Any
) -> Tensor:
    return sdpa(query, key, value, None, **kwargs)


def lost_causality(
    sdpa: Sdpa,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    causal: bool,
    **kwargs: Any,
) -> Tensor:
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
    return sdpa(query, key, value, mask, causal=False, **kwargs)


def unseen_self(
    sdpa: Sdpa,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    causal: bool,
    **kwargs: Any,
) -> Tensor:
    """A mask off by one: no query sees its own key, but the first."""
    queries, keys = query.shape[2], key.shape[2]
    places = torch.arange(keys, device=query.device)
    visible = places[keys - queries :, None] != places
    visible = visible.tril(keys - queries) if causal and mask is None else visible
    visible[0, 0] = True  # or it would see none
    if mask is None:
        mask = visible
    elif mask.dtype == torch.bool:
        mask = mask & visible
    else:
        mask = mask.masked_fill(~visible, torch.finfo(mask.dtype).min)
    return sdpa(query, key, value, mask, causal=causal, **kwargs)


def swapped_heads(
    sdpa: Sdpa, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **kwargs: Any
) -> Tensor:
    return sdpa(query, key.flip(1), value.flip(1), *rest, **kwargs)


def _is_causal(facts: PairFacts) -> bool:
    return defines("sdpa")(facts) and facts.causal


def _is_not_causal(facts: PairFacts) -> bool:
    return defines("sdpa")(facts) and not facts.causal


PART_CHECK = PartCheck(
    part="sdpa",
    says="attention is one call of scaled_dot_product_attention, and computes what the parent's "
    "does",
    routes=routes,
    effect=effect,
    attentions=("sdpa", "eager"),
    planted_errors=(
        PlantedError(
            "scale", "scores are twice as large", around("sdpa", wrong_scale), fits=defines("sdpa")
        ),
        PlantedError(
            "forgotten mask",
            "padding on the left is attended to",
            around("sdpa", forgotten_mask),
            scenario=Scenario(rows="left"),
            fits=defines("sdpa"),
        ),
        PlantedError(
            "forgotten padding",
            "padding on the right is attended to",
            around("sdpa", forgotten_mask),
            scenario=Scenario(rows="right"),
            fits=_is_not_causal,  # a causal query before the padding does not see it anyway
        ),
        PlantedError(
            "lost causality",
            "later tokens are seen",
            around("sdpa", lost_causality),
            fits=_is_causal,
        ),
        PlantedError(
            "mask off by one",
            "no token sees itself",
            around("sdpa", unseen_self),
            fits=defines("sdpa"),
        ),
        PlantedError(
            "heads swapped",
            "each query reads another's keys",
            around("sdpa", swapped_heads),
            fits=defines("sdpa"),
        ),
    ),
)
