"""Check that the variant generates the parent's text, and that its cache gives the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, StaticCache

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict, decide
from patchgen.verify.compare.differences import Difference, differences
from patchgen.verify.compare.tolerance import REORDERED
from patchgen.verify.observe.float64 import compute_in_float64
from patchgen.verify.observe.step import takes_cache

NEW_TOKENS = 5
SPARE = 6  # places of a static cache that stay empty
# Where a text of 13 tokens is cut.  A piece of two tokens needs a mask.  One token, or the whole
# text, would be right without one.
CUTS = ((9, 11, 12, 13), (9, 10, 11, 12, 13))
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
    from empty.
    """
    pair, dtype, route = context.pair, context.dtype, context.pair.routes[0]
    parent, variant = pair.models(route, dtype)
    given = pair.inputs(context.case.scenario, dtype).given
    if not takes_cache(pair.parent_class) or set(given) - {"input_ids"} or not pair.is_causal:
        raise NothingToCompare("it is no decoder that keeps keys and values")
    route, static = replace(route, bound=REORDERED), context.case.detail == "static"
    pieces = _pieces_for(parent, given["input_ids"], REORDERED.at(dtype), static=static)
    found = _in_chunks(variant, given["input_ids"], pieces, static=static)
    if found is None:
        return Verdict("FAIL", "it gives no cache, and the parent does")
    return decide(context, found, route, "what the whole text gives")


def _pieces_for(
    parent: PreTrainedModel, ids: Tensor, bound: float, *, static: bool
) -> tuple[int, ...]:
    """Where the text is cut.  State-space models cannot read several tokens after a cache."""
    for pieces in CUTS:
        try:
            found = _in_chunks(parent, ids, pieces, static=static)
        except Exception as error:  # each model has its own
            raise NothingToCompare(f"the parent itself does not run so: {error}") from error
        if found is None:
            raise NothingToCompare("it gives no cache")
        if found[0].largest <= bound:
            return pieces
    raise NothingToCompare("what the parent reads by its cache is not what it reads at once")


def _in_chunks(
    model: PreTrainedModel, ids: Tensor, pieces: tuple[int, ...], *, static: bool
) -> tuple[Difference, ...] | None:
    """How far logits of the pieces are from those of the whole; None without a cache."""
    parts, first = [], 0
    cache: Any = (
        StaticCache(config=model.config, max_cache_len=ids.shape[1] + SPARE) if static else None
    )
    with torch.no_grad(), compute_in_float64():
        whole = model.eval()(input_ids=ids, use_cache=False)[0]
        for last in pieces:
            out = model(input_ids=ids[:, first:last], past_key_values=cache, use_cache=True)
            cache, first = getattr(out, "past_key_values", None), last
            if cache is None:
                return None
            parts.append(out[0])
    return differences({"logits": whole}, {"logits": torch.cat(parts, 1)})


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
