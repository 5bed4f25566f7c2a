"""Whether each norm alone rounds as the parent's does in a narrow dtype."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict

# Of the values of a norm, those that may be one rounding apart: both compute in float32, and sum in
# another order.  A weight that is rounded first changes half of them.
MAY_DIFFER = 0.05
ROWS = 64


def check_norms(context: CheckContext) -> Verdict:
    """The norms of the variant and of the parent, on the same rows.

    In a whole model the noise of the narrow dtype hides one rounding too many.
    """
    pair = context.pair
    parent, variant = pair.models(pair.routes[0], context.dtype)
    theirs = dict(_find_norms(parent))
    shares = {
        name: _share_that_differs(norm, theirs[name])
        for name, norm in _find_norms(variant)
        if name in theirs
    }
    if not shares:
        raise NothingToCompare("it has no norm of its own")
    name, worst = max(shares.items(), key=lambda item: item[1])
    note = f"of {len(shares)} norms, values of {name} that are not the parent's"
    is_equal = worst <= MAY_DIFFER
    return Verdict("PASS" if is_equal else "FAIL", note, worst, MAY_DIFFER, unit="share")


def _find_norms(model: PreTrainedModel) -> Iterator[tuple[str, nn.Module]]:
    """The norms of the model's own file, with one weight for each place of a row."""
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        is_own = type(module).__module__ == type(model).__module__
        if is_own and type(module).__name__.endswith("Norm") and isinstance(weight, Tensor):
            yield name, module


def _share_that_differs(ours: nn.Module, theirs: nn.Module) -> float:
    weight = ours.get_parameter("weight")
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(ROWS, weight.shape[0], generator=draw).to(weight)
    with torch.no_grad():
        return float((ours(rows) != theirs(rows)).float().mean())
