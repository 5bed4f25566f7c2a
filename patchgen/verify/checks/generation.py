"""Check that the variant generates the parent's text, and that its cache gives the same."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, StaticCache

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict, decide
from patchgen.verify.checks.interface import ATTENTION_FUNCTIONS
from patchgen.verify.checks.noise import REORDERING
from patchgen.verify.compare.differences import Difference, differences
from patchgen.verify.compare.tolerance import REORDERED
from patchgen.verify.inputs.arguments import Inputs
from patchgen.verify.observe.float64 import compute_in_float64
from patchgen.verify.observe.step import takes_cache

NEW_TOKENS = 5
SPARE = 6  # places of a static cache that stay empty
# Where a text is cut, from its end.  A piece of two tokens needs a mask.  One token, or the whole
# text, would be right without one.
CUTS = ((4, 2, 1, 0), (4, 3, 2, 1, 0))
TEXT = {
    "input_ids",
    "attention_mask",
    "decoder_input_ids",
    "encoder_hidden_states",
    "encoder_attention_mask",
}
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "top_k": 20},
    "beams": {"num_beams": 3, "do_sample": False},
    "static cache": {"cache_implementation": "static", "do_sample": False},
}


def check_cache(context: CheckContext) -> Verdict:
    """A text that is read in pieces, with a cache, gives the logits of the whole text.

    The pieces are a prompt, two tokens at once, then one by one.
    NONE where the parent has no cache that does so; where it has, a variant that gives none is a
    FAIL.  With "static" as the case's detail the cache has more places than tokens, and is filled
    from empty.  The case names the attention function, if not the variant's own.
    """
    pair, how, static = context.pair, context.case.attention, context.case.detail == "static"
    config = pair.config()
    if not takes_cache(pair.parent_class) or not (pair.is_causal or config.is_encoder_decoder):
        raise NothingToCompare("it is no decoder that keeps keys and values")
    if how == "flash" and (static or not pair.variant_class._supports_flash_attn):
        raise NothingToCompare("it does not take FlashAttention here")
    inputs = pair.inputs(context.case.scenario, context.dtype)
    if inputs.given.keys() - TEXT or "input_ids" not in inputs.given:
        raise NothingToCompare("it reads more than text")
    with ATTENTION_FUNCTIONS[how](pair) if how else nullcontext((pair.routes[0], None)) as under:
        route = replace(under[0], bound=REORDERED)
        try:
            parent, variant = pair.models(route, context.dtype)
        except ValueError as error:
            raise NothingToCompare(f"refused: {error}") from error
        pieces = _pieces_for(parent, inputs, REORDERED.at(context.dtype), static=static)
        found = _in_chunks(variant, inputs, pieces, static=static)
    if found is None:
        return Verdict("FAIL", "it gives no cache, and the parent does")
    return decide(context, found, route, "what the whole text gives")


def _pieces_for(
    parent: PreTrainedModel, inputs: Inputs, bound: float, *, static: bool
) -> tuple[int, ...]:
    """Where the text is cut.  State-space models cannot read several tokens after a cache."""
    for pieces in CUTS:
        try:
            found = _in_chunks(parent, inputs, pieces, static=static)
        except Exception as error:  # each model has its own
            raise NothingToCompare(f"the parent itself does not run so: {error}") from error
        if found is None:
            raise NothingToCompare("it gives no cache")
        if found[0].largest <= REORDERING * bound:
            return pieces
    raise NothingToCompare("what the parent reads by its cache is not what it reads at once")


def _in_chunks(
    model: PreTrainedModel, inputs: Inputs, pieces: tuple[int, ...], *, static: bool
) -> tuple[Difference, ...] | None:
    """How far logits of the pieces are from those of the whole; None without a cache.

    `pieces` are counted from the end.
    """
    name = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
    given, real = dict(inputs.given), inputs.real[-1]
    ids = given.pop(name)
    mask = given.pop("attention_mask", None) if name == "input_ids" else None
    length, parts, first = ids.shape[1], [], 0
    cache: Any = StaticCache(config=model.config, max_cache_len=length + SPARE) if static else None

    def read(first: int, last: int, **asked: Any) -> Any:
        seen = {} if mask is None else {"attention_mask": mask[:, :last]}
        return model(**given, **{name: ids[:, first:last]}, **seen, return_dict=True, **asked)

    with torch.no_grad(), compute_in_float64():
        whole = _logits(model.eval() and read(0, length, use_cache=False))
        for last in (length - piece for piece in pieces):
            out = read(first, last, past_key_values=cache, use_cache=True)
            cache, first = getattr(out, "past_key_values", None), last
            if cache is None:
                return None
            parts.append(_logits(out))
    return differences({"logits": whole[real]}, {"logits": torch.cat(parts, 1)[real]})


def _logits(out: Any) -> Tensor:
    return next(tensor for name, tensor in out.items() if name in ("logits", "last_hidden_state"))


def check_generation(context: CheckContext) -> Verdict:
    """Check that both generate the same tokens, by the method that the case's detail names."""
    pair, way = context.pair, WAYS[context.case.detail]
    if not pair.parent_class.can_generate():
        raise NothingToCompare("it generates no text")
    if not (pair.is_causal or pair.config().is_encoder_decoder):
        raise NothingToCompare("it is an encoder here")
    route, made = pair.routes[0], []
    given = dict(pair.inputs(context.case.scenario, torch.float32).given)
    given.pop("decoder_input_ids", None)
    for model in pair.models(route, torch.float32):
        torch.manual_seed(0)
        out = model.eval().generate(
            **given,
            **way,
            min_new_tokens=NEW_TOKENS,
            max_new_tokens=NEW_TOKENS,
            output_logits=True,
            return_dict_in_generate=True,
        )
        made.append((out.sequences, torch.stack(out.logits, 1)))
    (theirs, logits), (ours, our_logits) = made
    if not torch.equal(ours, theirs):
        return Verdict("FAIL", "other tokens than the parent's")
    return decide(context, differences({"logits": logits}, {"logits": our_logits}), route)
