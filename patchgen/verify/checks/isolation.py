"""Check that texts packed into one row, as `position_ids` show, do not see each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict, decide
from patchgen.verify.compare.differences import differences
from patchgen.verify.compare.tolerance import REORDERED
from patchgen.verify.inputs.arguments import BOUNDARY, takes
from patchgen.verify.observe.float64 import compute_in_float64
from patchgen.verify.observe.step import outputs, takes_cache


def check_isolation(context: CheckContext) -> Verdict:
    """Compare the variant on two texts in one row with itself on each text alone.

    What it gives for each token is compared at that token, and what it gives for each text, as a
    pooler does, at that text.
    """
    pair = context.pair
    if "position_ids" not in takes(pair.variant_class):
        raise NothingToCompare("its forward takes no position_ids")
    _, variant = pair.models(pair.routes[0], context.dtype)
    given = pair.inputs(context.case.scenario, context.dtype).given
    ids, start = given["input_ids"][:1], _first_position(variant)
    texts = (ids[:, :BOUNDARY], ids[:, BOUNDARY:])
    places = [start + torch.arange(text.shape[1], device=ids.device)[None] for text in texts]
    joined = _run(variant, torch.cat(texts, 1), torch.cat(places, 1))
    isolated = [_run(variant, *each) for each in zip(texts, places, strict=True)]
    tokens = ids.shape[1]
    expected = {
        name: torch.cat([one[name] for one in isolated], 1 if tensor.shape[1] == tokens else 0)
        for name, tensor in joined.items()
    }
    wrong = [name for name in joined if joined[name].shape != expected[name].shape]
    if wrong:
        shapes = (f"{name} is {tuple(joined[name].shape)}" for name in wrong)
        return Verdict("FAIL", f"{', '.join(shapes)} for two texts in one row")
    route = replace(pair.routes[0], bound=REORDERED)
    return decide(context, differences(expected, joined), route, "each text alone")


def _first_position(model: PreTrainedModel) -> int:
    """The first position: RoBERTa's positions start after that of padding."""
    for name, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            return int(padding) + 1
    return 0


def _run(model: PreTrainedModel, ids: Tensor, places: Tensor) -> Mapping[str, Tensor]:
    with torch.no_grad(), compute_in_float64():
        cache = {"use_cache": False} if takes_cache(type(model)) else {}
        out = model.eval()(input_ids=ids, position_ids=places, return_dict=True, **cache)
    return dict(outputs(out))
