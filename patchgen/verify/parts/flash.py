"""flash: layers run on real tokens only, and compute for them what the parent does.

Errors are planted around the functions that a forward calls: where texts begin among the tokens,
where each token comes from, and where states go back to.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

import patchgen.runtime.varlen
from patchgen.verify.differences import REORDERED
from patchgen.verify.inputs.calls import FOUR_AXES
from patchgen.verify.inputs.dummy import make_inputs
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import PairFacts, PartCheck, Refusal, Route, Scenario, errors

PADDED = Scenario(rows="right", train=True, states=False)
VARLEN = {"attn_implementation": patchgen.runtime.varlen.NAME}


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """An encoder always drops padding, a decoder only if its attention takes text lengths."""
    sdpa, eager = {"attn_implementation": "sdpa"}, {"attn_implementation": "eager"}
    encodes = hasattr(sys.modules[parent_class.__module__], "create_bidirectional_mask")
    if parent_class.__name__.endswith("ForQuestionAnswering"):
        # It reads padding, where each attention has its own.
        if encodes:
            return Route("sdpa", REORDERED, sdpa, sdpa), Route("eager", REORDERED, eager, sdpa)
        return Route("its kernels", REORDERED, VARLEN, VARLEN), Route("sdpa", REORDERED, sdpa, sdpa)
    written_out = Route("eager", REORDERED, eager, VARLEN)
    if not parent_class._supports_sdpa:
        return (written_out,)
    return Route("sdpa", REORDERED, sdpa, sdpa if encodes else VARLEN), written_out


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Each layer and its products ran on the real tokens, with one attention call."""
    real = make_inputs(facts.parent_class, facts.config, PADDED).real[0]
    tokens, places = int(real.sum()), real.numel()
    if tokens == places:
        yield "the batch has no padding"
    for name in layers_of(facts):
        shapes, before = variant.forwards.get(name, []), parent.forwards.get(name, [])
        if len(shapes) != len(before) or any(shape[:2] != (1, tokens) for shape in shapes):
            yield f"{name} ran on {sorted(set(shapes))}, not on one row of {tokens} tokens"
    # A head runs on all places, or on labelled tokens.
    layers = sum(variant.runs_of(name) for name in layers_of(facts))
    products, heads = products_over(variant, tokens), products_over(variant, places)
    if products < layers or heads >= layers:
        yield (
            f"of the matrix products {products} ran over {tokens} tokens, "
            f"and {heads} over all {places} places"
        )
    if len(variant.trace.sdpa) > max(layers, len(parent.trace.sdpa)):
        yield f"{len(variant.trace.sdpa)} calls of SDPA in {layers} layers"
    longest = int(real.sum(1).max())
    if wide := [call.key for call in variant.trace.sdpa if call.key[-2] > longest]:
        keys = wide[0][-2]
        yield f"an attention ran over {keys} keys, and no text has more than {longest} tokens"


def layers_of(facts: PairFacts) -> list[str]:
    """The classes of layers that the generated module defines."""
    members = inspect.getmembers(facts.module, inspect.isclass)
    own = ((name, each) for name, each in members if each.__module__ == facts.module.__name__)
    return [name for name, each in own if issubclass(each, GradientCheckpointingLayer)]


def products_over(evidence: Evidence, places: int) -> int:
    """The linear layers that ran on this number of places."""
    return sum(prod(shape[:-1]) == places for shape in evidence.forwards.get("Linear", ()))


Found = tuple[
    Tensor, Tensor, int
]  # places, starts and the longest text, as `_get_unpad_data` gives them


def shifted_boundaries(find: Callable[..., Found], *args: Any) -> Found:
    """Each text is counted one token too long, and those after it begin late."""
    places_T, cu_seqlens_N1, _ = find(*args)
    late = torch.arange(len(cu_seqlens_N1), device=cu_seqlens_N1.device, dtype=cu_seqlens_N1.dtype)
    cu_seqlens_N1 = (cu_seqlens_N1 + late).clamp(max=len(places_T))
    return places_T, cu_seqlens_N1, int(cu_seqlens_N1.diff().max())


def one_text(find: Callable[..., Found], *args: Any) -> Found:
    """Tokens of all rows are one text."""
    places_T, cu_seqlens_N1, _ = find(*args)
    return places_T, cu_seqlens_N1[[0, -1]], len(places_T)


def later_places(find: Callable[..., Found], *args: Any) -> Found:
    """Each token is taken for the one before it."""
    places_T, cu_seqlens_N1, max_seqlen = find(*args)
    return places_T.roll(1), cu_seqlens_N1, max_seqlen


def rolled_states(put_back: Callable[..., Tensor], states: Tensor, *args: Any) -> Tensor:
    """Each state goes to the next token's place."""
    return put_back(states.roll(1, dims=0), *args)


def forgotten_mask(make: Callable[..., Any], *args: Any) -> Any:
    """Padding is attended to."""
    texts = make(*args)
    return texts if texts is None else texts._replace(mask=torch.ones_like(texts.mask))


PART_CHECK = PartCheck(
    part="flash",
    says="layers run on real tokens alone, and compute for them what the parent computes",
    routes=routes,
    effect=effect,
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
            (
                "boundaries off by one",
                "a text ends with the first token of the next",
                shifted_boundaries,
            ),
            ("boundaries lost", "tokens of other rows are attended to", one_text),
            ("places off by one", "tokens are taken from the places of others", later_places),
            scenario=PADDED,
        ),
        *errors(
            "_pad_input",
            ("order lost", "states go to the places of other tokens", rolled_states),
            scenario=PADDED,
        ),
        *errors(
            "make_texts",
            ("mask lost", "padding in the rows of attention is attended to", forgotten_mask),
            scenario=PADDED,
        ),
    ),
)
