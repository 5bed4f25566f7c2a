"""sdpa: attention is one call of `scaled_dot_product_attention`, of the same function as before.

The errors are planted around `sdpa`, the function of the part that makes the call.  The table of
them, `attention_errors`, serves any function of queries and keys: see `attention_interface`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.verify.differences import EQUAL, REORDERED
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import (
    PairFacts,
    PartCheck,
    Plant,
    PlantedError,
    Route,
    Scenario,
    around,
    defines,
)


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """Bit for bit transformers' own "sdpa" if it has that; "eager" up to rounding."""
    sdpa = {"attn_implementation": "sdpa"}
    eager = Route("eager", REORDERED, {"attn_implementation": "eager"}, sdpa)
    return (Route("sdpa", EQUAL, sdpa, sdpa), eager) if parent_class._supports_sdpa else (eager,)


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """As many calls of SDPA as the parent has attentions, and no softmax over scores."""
    calls = variant.trace.sdpa
    # Attention over patches, or over every other token, has lengths that only its calls tell of.
    keys = {*facts.lengths, *(call.key[-2] for call in calls)}
    wanted = len(parent.trace.sdpa) + parent.trace.softmaxes_over(*keys)
    if len(calls) != wanted or not calls:
        yield f"{len(calls)} calls of SDPA for {wanted} attentions"
    if by_hand := variant.trace.softmaxes_over(*keys):
        yield f"{by_hand} softmaxes over scores"
    # Otherwise nothing of what was compared depends on where attention looks.
    if spread := [call.scores_std for call in calls if call.scores_std < 1 / 3]:
        yield f"scores of deviation {min(spread):.2f}: an error in them could not be seen"


@dataclass(frozen=True, slots=True)
class Attention:
    """What a function of attention is given; each error changes some of it."""

    query: Tensor  # (rows, heads, tokens, size), as key and value
    key: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool
    scaling: float | None

    def scaled(self) -> Attention:
        scaling = self.query.shape[-1] ** -0.5 if self.scaling is None else self.scaling
        return replace(self, scaling=scaling * 2)

    def without_mask(self) -> Attention:
        return replace(self, mask=None)

    def without_causality(self) -> Attention:
        """Drop the causal order, whether the flag or the mask has it (as with a bias of scores)."""
        mask, (queries, keys) = self.mask, (self.query.shape[2], self.key.shape[2])
        if mask is not None:
            later = torch.ones((queries, keys), dtype=torch.bool, device=mask.device)
            later = later.triu(keys - queries + 1)
            is_bool = mask.dtype == torch.bool
            mask = mask | later if is_bool else mask.masked_fill(later & (mask <= -1e4), 0.0)
        return replace(self, mask=mask, causal=False)

    def without_self(self) -> Attention:
        """A mask off by one: no query sees its own key, except the first."""
        mask, (queries, keys) = self.mask, (self.query.shape[2], self.key.shape[2])
        places = torch.arange(keys, device=self.query.device)
        visible = places[keys - queries :, None] != places
        visible = visible.tril(keys - queries) if self.causal and mask is None else visible
        visible[0, 0] = True  # otherwise it would see no key
        if mask is None:
            mask = visible[None, None]
        elif mask.dtype == torch.bool:
            mask = mask & visible
        else:
            mask = mask.masked_fill(~visible, torch.finfo(mask.dtype).min)
        return replace(self, mask=mask)

    def with_swapped_heads(self) -> Attention:
        return replace(self, key=self.key.flip(1), value=self.value.flip(1))


Change = Callable[[Attention], Attention]


def attention_errors(
    plant: Callable[[Change], Plant], fits: Callable[[PairFacts], bool]
) -> tuple[PlantedError, ...]:
    """The errors of a function of attention; `plant` changes what it is given in each call."""

    def fit(causal: bool) -> Callable[[PairFacts], bool]:
        return lambda facts: fits(facts) and facts.causal is causal

    wrong, full = Attention, Scenario()
    left, right = Scenario(rows="left"), Scenario(rows="right")
    # A causal query before the padding on the right does not see it anyway.
    table = (
        ("scale", "scores are twice as large", wrong.scaled, full, fits),
        ("forgotten mask", "padding on the left is attended to", wrong.without_mask, left, fits),
        (
            "forgotten padding",
            "padding on the right is attended to",
            wrong.without_mask,
            right,
            fit(causal=False),
        ),
        ("lost causality", "later tokens are seen", wrong.without_causality, full, fit(True)),
        ("mask off by one", "no token sees itself", wrong.without_self, full, fits),
        ("heads swapped", "each query reads another's keys", wrong.with_swapped_heads, full, fits),
    )
    return tuple(
        PlantedError(name, says, plant(change), scenario, fit_of)
        for name, says, change, scenario, fit_of in table
    )


def _around_sdpa(change: Change) -> Plant:
    def wrong(
        sdpa: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, m: Any, **o: Any
    ) -> Any:
        new = change(Attention(q, k, v, m, o["causal"], o["scaling"]))
        asked = {**o, "causal": new.causal, "scaling": new.scaling}
        return sdpa(new.query, new.key, new.value, new.mask, **asked)

    return around("sdpa", wrong)


PART_CHECK = PartCheck(
    part="sdpa",
    says="attention is one call of scaled_dot_product_attention, and computes what the parent's "
    "does",
    routes=routes,
    effect=effect,
    attentions=("sdpa", "eager"),
    planted_errors=attention_errors(_around_sdpa, defines("sdpa")),
)
