"""Attention: the parts `sdpa` and `flash`, and a model that calls transformers' interface.

sdpa: attention is one call of `scaled_dot_product_attention`, of the same function as before.
attention_interface: it is what transformers' interface gives.  This is no part of patchgen: it is
checked if a diff calls the interface.
flash: layers run on real tokens only, and compute for them what the parent does.

The table of errors, `attention_errors`, serves any function of queries and keys.  Those of `flash`
are planted around the functions that a forward calls: where texts begin among the tokens, and where
states go back to.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import patchgen.runtime.varlen
from patchgen.verify.differences import EQUAL, REORDERED
from patchgen.verify.inputs.arguments import FOUR_AXES
from patchgen.verify.inputs.dummy import make_inputs
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import (
    PairFacts,
    PartCheck,
    PlantedError,
    Refusal,
    Route,
    Scenario,
    anywhere,
    defines,
    errors,
    wrapped,
)

_EAGER, _SDPA = {"attn_implementation": "eager"}, {"attn_implementation": "sdpa"}
_OF_EAGER = Route("eager", REORDERED, _EAGER, _SDPA)


def sdpa_routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """Bit for bit transformers' own "sdpa" if it has that; "eager" up to rounding."""
    same = Route("sdpa", EQUAL, _SDPA, _SDPA)
    return (same, _OF_EAGER) if parent_class._supports_sdpa else (_OF_EAGER,)


def sdpa_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
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


# --- the errors of a function of attention


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
            return replace(self, mask=visible[None, None])
        if mask.dtype == torch.bool:
            return replace(self, mask=mask & visible)
        return replace(self, mask=mask.masked_fill(~visible, torch.finfo(mask.dtype).min))

    def with_swapped_heads(self) -> Attention:
        return replace(self, key=self.key.flip(1), value=self.value.flip(1))


Change = Callable[[Attention], Attention]


def attention_errors(
    plant: Callable[[Change], Any], fits: Callable[[PairFacts], bool]
) -> tuple[PlantedError, ...]:
    """The errors of a function of attention; `plant` changes what it is given in each call."""

    def fit(causal: bool) -> Callable[[PairFacts], bool]:
        return lambda facts: fits(facts) and facts.causal is causal

    wrong, left, right = Attention, Scenario(rows="left"), Scenario(rows="right")
    # A causal query before the padding on the right does not see it anyway.
    lost, seen = "forgotten padding", "padding on the right is attended to"
    table: tuple[tuple[str, str, Change, Scenario, Callable[[PairFacts], bool]], ...] = (
        ("scale", "scores are twice as large", wrong.scaled, Scenario(), fits),
        ("forgotten mask", "padding on the left is attended to", wrong.without_mask, left, fits),
        (lost, seen, wrong.without_mask, right, fit(False)),
        ("lost causality", "later tokens are seen", wrong.without_causality, Scenario(), fit(True)),
        ("mask off by one", "no token sees itself", wrong.without_self, Scenario(), fits),
        ("heads swapped", "queries read others' keys", wrong.with_swapped_heads, Scenario(), fits),
    )
    return tuple(
        PlantedError(name, says, plant(change), scenario, fit_of)
        for name, says, change, scenario, fit_of in table
    )


def _around_sdpa(change: Change) -> Any:
    def wrong(sdpa: Any, q: Tensor, k: Tensor, v: Tensor, m: Any, **o: Any) -> Any:
        new = change(Attention(q, k, v, m, o["causal"], o["scaling"]))
        asked = {**o, "causal": new.causal, "scaling": new.scaling}
        return sdpa(new.query, new.key, new.value, new.mask, **asked)

    return lambda model: wrapped(sys.modules[type(model).__module__], "sdpa", wrong)


def _around_interface(change: Change) -> Any:
    right = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def wrong(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any = None, **o: Any) -> Any:
        causal = o.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        new = change(Attention(q, k, v, mask, causal, o.get("scaling")))
        asked = {**o, "is_causal": new.causal, "scaling": new.scaling}
        return right(module, new.query, new.key, new.value, new.mask, **asked)

    @contextmanager
    def plant(model: PreTrainedModel) -> Iterator[None]:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = wrong
        try:
            yield
        finally:
            del ALL_ATTENTION_FUNCTIONS["sdpa"]

    return plant


SDPA = PartCheck(
    part="sdpa",
    routes=sdpa_routes,
    effect=sdpa_effect,
    attentions=("sdpa", "eager"),
    planted_errors=attention_errors(_around_sdpa, defines("sdpa")),
)
# The parent's own scores.  Another case checks that "eager" equals them bit for bit.
INTERFACE = PartCheck(
    part="attention_interface",
    routes=lambda parent_class: (_OF_EAGER,),
    effect=sdpa_effect,
    attentions=("sdpa", "eager"),
    by_flags=True,
    weights_under="eager",
    planted_errors=attention_errors(_around_interface, anywhere),
)


# --- flash

PADDED = Scenario(rows="right", train=True, states=False)
VARLEN = {"attn_implementation": patchgen.runtime.varlen.NAME}


def flash_routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """An encoder always drops padding, a decoder only if its attention takes text lengths."""
    encodes = hasattr(sys.modules[parent_class.__module__], "create_bidirectional_mask")
    if parent_class.__name__.endswith("ForQuestionAnswering"):
        # It reads padding, where each attention has its own.
        same = Route("sdpa", REORDERED, _SDPA, _SDPA)
        if encodes:
            return same, _OF_EAGER
        return Route("its kernels", REORDERED, VARLEN, VARLEN), same
    written_out = Route("eager", REORDERED, _EAGER, VARLEN)
    if not parent_class._supports_sdpa:
        return (written_out,)
    return Route("sdpa", REORDERED, _SDPA, _SDPA if encodes else VARLEN), written_out


def flash_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Each layer and its products ran on the real tokens, with one attention call."""
    real = make_inputs(facts.parent_class, facts.config, PADDED).real[0]
    tokens, places = int(real.sum()), real.numel()
    if tokens == places:
        yield "the batch has no padding"
    own = (each for _, each in inspect.getmembers(facts.module, inspect.isclass))
    names = [
        each.__name__
        for each in own
        if each.__module__ == facts.module.__name__
        if issubclass(each, GradientCheckpointingLayer)
    ]
    for name in names:
        shapes, before = variant.forwards.get(name, []), parent.forwards.get(name, [])
        if len(shapes) != len(before) or any(shape[:2] != (1, tokens) for shape in shapes):
            yield f"{name} ran on {sorted(set(shapes))}, not on one row of {tokens} tokens"
    # A head runs on all places, or on labelled tokens.
    layers = sum(map(variant.runs_of, names))
    sizes = [prod(shape[:-1]) for shape in variant.forwards.get("Linear", ())]
    products, heads = sizes.count(tokens), sizes.count(places)
    if products < layers or heads >= layers:
        yield f"{products} products ran over {tokens} tokens, and {heads} over all {places} places"
    if len(variant.trace.sdpa) > max(layers, len(parent.trace.sdpa)):
        yield f"{len(variant.trace.sdpa)} calls of SDPA in {layers} layers"
    longest = int(real.sum(1).max())
    if wide := [call.key[-2] for call in variant.trace.sdpa if call.key[-2] > longest]:
        yield f"an attention ran over {wide[0]} keys, and no text has more than {longest} tokens"


# Places, starts and the longest text, as `_get_unpad_data` gives them.
Found = tuple[Tensor, Tensor, int]


def shifted_boundaries(find: Callable[..., Found], *args: Any) -> Found:
    """Each text is counted one token too long, and those after it begin late."""
    places_T, cu_seqlens_N1, _ = find(*args)
    late = torch.arange(len(cu_seqlens_N1), device=cu_seqlens_N1.device, dtype=cu_seqlens_N1.dtype)
    cu_seqlens_N1 = (cu_seqlens_N1 + late).clamp(max=len(places_T))
    return places_T, cu_seqlens_N1, int(cu_seqlens_N1.diff().max())


def rolled_states(put_back: Callable[..., Tensor], states: Tensor, *args: Any) -> Tensor:
    return put_back(states.roll(1, dims=0), *args)


_LATE = "a text ends with the first token of the next"
FLASH = PartCheck(
    part="flash",
    routes=flash_routes,
    effect=flash_effect,
    effect_scenario=PADDED,
    same_rng_order=False,
    works_with_hidden_states=False,
    # Kernels need the length of the longest text, which is on the device unless it is given.
    ends_graphs=(
        "Dynamic shape operator",
        "Unsupported Tensor.item() call with capture_scalar_outputs=False",
    ),
    # Kernels that take the lengths of texts take no such mask; without padding there is nothing to
    # take out of it.
    refuses=(Refusal("takes a mask of (rows, tokens)", FOUR_AXES),),
    planted_errors=(
        *errors(
            "_get_unpad_data",
            ("boundaries off by one", _LATE, shifted_boundaries),
            scenario=PADDED,
        ),
        *errors(
            "_pad_input",
            ("order lost", "states go to the places of other tokens", rolled_states),
            scenario=PADDED,
        ),
    ),
)
