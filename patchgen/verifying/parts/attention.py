"""Attention: the parts `sdpa` and `flash`, and a model that calls transformers' interface.

sdpa: attention is one call of `scaled_dot_product_attention`, of the same function as before.
attention_interface: it is what transformers' interface gives.  This is no part of patchgen: it is
checked if a diff calls the interface.
flash: layers run on real tokens only, and compute for them what the parent does.

Errors of attention are planted too, by one table for all: where attention is transformers' own, no
mutant of a changed line shows whether an error in it would be seen.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, modeling_layers

import patchgen.runtime.varlen
from patchgen.facts.modules import CHECKPOINTED
from patchgen.verifying.differences import EQUAL, REORDERED
from patchgen.verifying.inputs.arguments import FOUR_AXES
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.observe.evidence import Evidence, sdpa_call
from patchgen.verifying.parts import part_check

_EAGER, _SDPA = {"attn_implementation": "eager"}, {"attn_implementation": "sdpa"}
_OF_EAGER = part_check.Route("eager", REORDERED, _EAGER, _SDPA)


def sdpa_routes(parent_class: type[PreTrainedModel]) -> tuple[part_check.Route, ...]:
    """Bit for bit transformers' own "sdpa" if it has that; "eager" up to rounding."""
    same = part_check.Route("sdpa", EQUAL, _SDPA, _SDPA)
    return (same, _OF_EAGER) if parent_class._supports_sdpa else (_OF_EAGER,)


def sdpa_effect(parent: Evidence, variant: Evidence, facts: part_check.PairFacts) -> Iterator[str]:
    """As many calls of SDPA as the parent has attentions, and no softmax over scores."""
    calls = variant.trace.sdpa
    # Attention over patches, or over every other token, has lengths that only its calls tell of, or
    # softmaxes in a class that calls SDPA elsewhere.
    keys = {*facts.lengths, *(call.key[-2] for call in calls)}
    left = zip(variant.trace.with_softmax, variant.trace.softmaxes, strict=True)
    keys |= {shape[-1] for name, shape in left if name in variant.trace.with_sdpa}
    wanted = len(parent.trace.sdpa) + parent.trace.softmaxes_over(*keys)
    if len(calls) != wanted or not calls:
        yield f"{len(calls)} calls of SDPA for {wanted} attentions"
    if by_hand := variant.trace.softmaxes_over(*keys):
        yield f"{by_hand} softmaxes over scores"
    # Otherwise nothing of what was compared depends on where attention looks.
    if spread := [call.scores_std for call in calls if call.scores_std < 1 / 3]:
        yield f"scores of deviation {min(spread):.2f}: an error in them could not be seen"
    if calls and all(call.values_std < 1e-6 for call in calls):
        yield "values that are the same at every key: attention changes nothing"


# --- errors in attention


def _wrong(error: str, sdpa: Callable[..., Tensor], *args: Any, **named: Any) -> Tensor:
    call = inspect.signature(sdpa_call).bind(*args, **named).arguments
    query, key, mask = call["query"], call["key"], call.get("attn_mask")
    queries, keys = query.shape[-2], key.shape[-2]
    if error == "scale":
        call["scale"] = 2 * (call.get("scale") or query.shape[-1] ** -0.5)
    elif error in ("forgotten mask", "forgotten padding"):
        call["attn_mask"] = None
    elif error == "lost causality":  # whether the flag or the mask has it, as with a bias of scores
        call["is_causal"] = False
        if mask is not None:
            later = torch.ones(queries, keys, dtype=torch.bool, device=mask.device)
            later = later.triu(keys - queries + 1)
            is_bool = mask.dtype == torch.bool
            seen = mask | later if is_bool else mask.masked_fill(later & (mask <= -1e4), 0.0)
            call["attn_mask"] = seen
    elif error == "mask off by one":  # no query sees its own key, except the first
        places = torch.arange(keys, device=query.device)
        visible = places[keys - queries :, None] != places
        visible = visible.tril(keys - queries) if call.pop("is_causal", False) else visible
        visible[0, 0] = True  # otherwise it would see no key
        if mask is not None:
            is_bool = mask.dtype == torch.bool
            lowest = None if is_bool else torch.finfo(mask.dtype).min
            visible = mask & visible if is_bool else mask.masked_fill(~visible, lowest)
        call["attn_mask"] = visible
    else:
        call |= {"key": key.flip(-3), "value": call["value"].flip(-3)}
    return sdpa(**call)


def _plant(error: str, model: PreTrainedModel) -> AbstractContextManager[None]:
    wrong = partial(partial, _wrong, error)
    return part_check.replaced(nn.functional, "scaled_dot_product_attention", wrong)


# A causal query before the padding on the right does not see it anyway.
_ERRORS: tuple[tuple[str, str, part_check.Rows, bool | None], ...] = (
    ("scale", "scores are twice as large", "full", None),
    ("forgotten mask", "padding on the left is attended to", "left", None),
    ("forgotten padding", "padding on the right is attended to", "right", False),
    ("lost causality", "later tokens are seen", "full", True),
    ("mask off by one", "no token sees itself", "full", None),
    ("heads swapped", "queries read others' keys", "full", None),
)
ERRORS = tuple(
    part_check.PlantedError(
        name,
        says,
        partial(_plant, name),
        part_check.Scenario(rows=rows),
        lambda facts, causal=causal: causal in (None, facts.causal),  # type: ignore[misc]
    )
    for name, says, rows, causal in _ERRORS
)
SDPA = part_check.PartCheck(
    part="sdpa",
    routes=sdpa_routes,
    effect=sdpa_effect,
    attentions=("sdpa", "eager"),
    planted_errors=ERRORS,
)
# The parent's own scores.  Another case checks that "eager" equals them bit for bit.
INTERFACE = part_check.PartCheck(
    part="attention_interface",
    routes=lambda parent_class: (_OF_EAGER,),
    effect=sdpa_effect,
    attentions=("sdpa", "eager"),
    by_flags=True,
    planted_errors=ERRORS,
)


# --- flash

PADDED = part_check.Scenario(rows="right", train=True, states=False)
VARLEN = {"attn_implementation": patchgen.runtime.varlen.NAME}
SOFTCAP = "attn_logit_softcapping"


def flash_routes(parent_class: type[PreTrainedModel]) -> tuple[part_check.Route, ...]:
    """An encoder always drops padding, a decoder only if its attention takes text lengths."""
    encodes = hasattr(sys.modules[parent_class.__module__], "create_bidirectional_mask")
    # The kernels for lengths do not cap scores.  The cases "by flash" do.
    capped = {SOFTCAP: None} if hasattr(parent_class.config_class, SOFTCAP) else {}
    eager, sdpa, varlen = _EAGER | capped, _SDPA | capped, VARLEN | capped
    if parent_class.__name__.endswith("ForQuestionAnswering"):
        # It reads padding, where each attention has its own.
        same = part_check.Route("sdpa", REORDERED, sdpa, sdpa)
        if encodes:
            return same, _OF_EAGER
        return part_check.Route("its kernels", REORDERED, varlen, varlen), same
    written_out = part_check.Route("eager", REORDERED, eager, varlen)
    if not parent_class._supports_sdpa:
        return (written_out,)
    return part_check.Route("sdpa", REORDERED, sdpa, sdpa if encodes else varlen), written_out


def flash_effect(parent: Evidence, variant: Evidence, facts: part_check.PairFacts) -> Iterator[str]:
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
        if issubclass(each, getattr(modeling_layers, CHECKPOINTED))
    ]
    for name in names:
        shapes, before = variant.forwards.get(name, []), parent.forwards.get(name, [])
        if len(shapes) != len(before) or any(shape[:2] != (1, tokens) for shape in shapes):
            yield f"{name} ran on {sorted(set(shapes))}, not on one row of {tokens} tokens"
    # What stands around the layers runs on all places, a head perhaps on labelled tokens.
    around = 0
    for *outer, module in parent.paths:
        is_in_layer = any(type(each).__name__ in names for each in outer)
        around += isinstance(module, nn.Linear) and not is_in_layer
    layers = sum(map(variant.runs_of, names))
    sizes = [prod(shape[:-1]) for shape in variant.forwards.get("Linear", ())]
    products, heads = sizes.count(tokens), sizes.count(places)
    if products < layers or heads > around:
        yield f"{products} products ran over {tokens} tokens, and {heads} over all {places} places"
    if len(variant.trace.sdpa) > max(layers, len(parent.trace.sdpa)):
        yield f"{len(variant.trace.sdpa)} calls of SDPA in {layers} layers"
    longest = int(real.sum(1).max())
    if wide := [call.key[-2] for call in variant.trace.sdpa if call.key[-2] > longest]:
        yield f"an attention ran over {wide[0]} keys, and no text has more than {longest} tokens"


def is_other_head_of_tokens(head: str, is_main: bool) -> bool:
    """Other heads give one result a row, whatever is in it; the main one has all such cases."""
    return head.endswith(("Model", "ForMaskedLM", "ForCausalLM")) and not is_main


def is_decoder(head: str, is_main: bool) -> bool:
    """Whether texts in one row are apart in the parent too, which decoders alone keep so."""
    return is_main and head.endswith(("LMHeadModel", "ForCausalLM"))


FLASH = part_check.PartCheck(
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
    refuses=(("takes a mask of (rows, tokens)", FOUR_AXES),),
    promises=(
        part_check.Promise(
            "itself: packed rows",
            "itself",
            "float64",
            "packed rows",
            fits=is_other_head_of_tokens,
        ),
        part_check.Promise(
            "float64 packed by flash",
            "interface",
            "float64",
            "flash",
            part_check.Scenario(rows="packed", train=True),
            fits=is_decoder,
        ),
    ),
    keeps_texts_apart=True,
    keeps_texts_apart_with_a_mask=True,
)
