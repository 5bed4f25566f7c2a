"""Whether the variant generates what the parent does, and reads its cache as it reads the text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from patchgen.lab.checks.trial import Nothing, Trial, Verdict, decided
from patchgen.lab.parity import differences
from patchgen.lab.step import takes_cache
from patchgen.lab.tolerance import REORDERED
from patchgen.lab.wide import widened

NEW_TOKENS = 5
SPLIT = 9  # of a text of 13 tokens: what is read at once before the rest comes token by token
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "top_k": 20},
    "beams": {"num_beams": 3, "do_sample": False},
    "static cache": {"cache_implementation": "static", "do_sample": False},
}


def keeps_cache(trial: Trial) -> Verdict:
    """A prompt read at once and then token by token gives what the whole gives."""
    pair, dtype, route = trial.pair, trial.dtype, trial.pair.routes[0]
    variant = pair.models(route, dtype)[1]
    given = pair.inputs(trial.case.scene, dtype).given
    if not takes_cache(pair.parent_class) or set(given) - {"input_ids"} or not pair.is_causal:
        raise Nothing("it is no decoder that keeps keys and values")
    ids, parts, cache = given["input_ids"], [], None
    with torch.no_grad(), widened():
        whole = variant.eval()(input_ids=ids, use_cache=False)[0]
        for first, last in [(0, SPLIT), *((i, i + 1) for i in range(SPLIT, ids.shape[1]))]:
            out = variant(input_ids=ids[:, first:last], past_key_values=cache, use_cache=True)
            cache = out.get("past_key_values")
            if cache is None:
                raise Nothing("it gives no cache")
            parts.append(out[0])
    found = differences({"logits": whole}, {"logits": torch.cat(parts, 1)})
    return decided(trial, found, replace(route, bound=REORDERED, name="the whole text"))


def generates(trial: Trial) -> Verdict:
    """The same tokens, in the way that the case's detail names."""
    pair, way = trial.pair, WAYS[trial.case.detail]
    if not pair.parent_class.can_generate():
        raise Nothing("it generates no text")
    if not (pair.is_causal or pair.config().is_encoder_decoder):
        raise Nothing("it is an encoder here")
    route, made = pair.routes[0], []
    given = dict(pair.inputs(trial.case.scene, torch.float32).given)
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
    return decided(trial, differences({"logits": logits}, {"logits": our_logits}), route)
