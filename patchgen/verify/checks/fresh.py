"""Check that a model that is not loaded draws its weights from the parent's distributions."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel, set_seed

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict
from patchgen.verify.models.build import silence_progress
from patchgen.verify.models.pair import Pair
from patchgen.verify.parts.part_check import nan_where_not_drawn

SEED = 5
# Differs from the default of every torch module, so a weight that is never drawn stands out.
RANGE = 0.5
# Standard errors that two samples of one distribution may be apart.
ERRORS = 6.0


def check_initialization(context: CheckContext) -> Verdict:
    """Each tensor of a new variant has the mean and the spread that it has in the parent."""
    pair = context.pair
    if pair.variant_class.is_custom_code() != pair.parent_class.is_custom_code():
        return Verdict("FAIL", "transformers initialises it by the rules of another kind of code")
    laid_out, blank = _parent_as_variant(pair), _parent_as_variant(pair, blank=True).state_dict()
    set_seed(SEED)
    with nan_where_not_drawn():
        variant = pair.variant_class(copy.deepcopy(laid_out.config))
    theirs, ours = laid_out.state_dict(), variant.state_dict()
    # A tensor that is not zero in a variant of zeros is no weight of the parent, such as a router.
    names = [
        name
        for name in ours
        if name in theirs and ours[name].is_floating_point() and not blank[name].any()
    ]
    if not names:
        raise NothingToCompare("no tensor is in both")
    wrong = [name for name in names if not _alike(theirs[name], ours[name])]
    if wrong:
        return Verdict("FAIL", f"drawn from other distributions: {', '.join(sorted(wrong)[:5])}")
    return Verdict("PASS", f"{len(names)} tensors are drawn as the parent's")


def _parent_as_variant(pair: Pair, *, blank: bool = False) -> PreTrainedModel:
    """A new parent's weights, or zeros in their place, laid out as the variant has them."""
    config = pair.config()
    for name in ("initializer_range", "init_std"):
        if hasattr(config, name):
            setattr(config, name, RANGE)
    set_seed(SEED)
    parent = pair.parent_class(config)
    if blank:
        with torch.no_grad():
            for parameter in parent.parameters():
                parameter.zero_()
    with tempfile.TemporaryDirectory() as folder, silence_progress():
        return pair.build(parent, pair.variant_class, Path(folder), dict(pair.routes[0].variant))


def _alike(one: Tensor, two: Tensor) -> bool:
    """Whether both may be samples of one distribution, by mean and standard deviation."""
    if one.shape != two.shape:
        return False
    if one.numel() < 2:
        return bool(torch.isfinite(two).all())
    (spread, mean), (other_spread, other_mean) = (
        torch.std_mean(each.double()) for each in (one, two)
    )
    wide = float(max(spread, other_spread))
    error = ERRORS * wide / (one.numel() ** 0.5) + 1e-6
    return abs(float(mean - other_mean)) <= 2 * error and abs(float(spread - other_spread)) <= error
