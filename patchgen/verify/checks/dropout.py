"""Check that each dropout rate moves the variant as far as it moves the parent.

For variants that draw random numbers in another order than the parent.  No single step can be
compared then, but how far dropout moves the outputs on average can.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.step import outputs

RATE = 0.3
DRAWS = 24
# The factor that two such means may differ by.  Twice the rate moves outputs by half as much again,
# and no dropout moves nothing.
ALLOWED_FACTOR = 1.25


def check_dropout(context: CheckContext) -> Verdict:
    """Check the rate that the case's detail names, with all other rates zero."""
    pair, name = context.pair, context.case.detail
    if all(part_check.same_rng_order for part_check in pair.part_checks):
        raise NothingToCompare("it draws as the parent does, and is compared step by step")
    if name not in pair.config().to_dict():
        raise NothingToCompare(f"the configuration has no {name}")
    route = pair.routes[0]
    with_dropout = Pair(pair.variant, pair.head, pair.device, {**pair.changes, name: RATE})
    parent, variant = with_dropout.models(route, torch.float32)
    theirs, ours = (_moved(model, context, with_dropout) for model in (parent, variant))
    note = f"{name} of {RATE} moves outputs by {ours:.3g}, the parent's by {theirs:.3g}"
    if not theirs:
        raise NothingToCompare(f"{name} moves nothing in the parent")
    near = theirs / ALLOWED_FACTOR <= ours <= theirs * ALLOWED_FACTOR
    return Verdict("PASS" if near else "FAIL", note)


@torch.no_grad()
def _moved(model: PreTrainedModel, context: CheckContext, pair: Pair) -> float:
    """Root mean square of the change of the first output by dropout, relative to the output."""
    inputs = pair.inputs(context.case.scenario, torch.float32)
    still = _first(model.eval(), inputs.given)
    real = next((mask for mask in inputs.real if mask.shape == still.shape[:2]), ...)
    still = still[real]
    model.train()
    torch.manual_seed(0)
    noise = [(_first(model, inputs.given)[real] - still).square().mean() for _ in range(DRAWS)]
    model.eval()
    return float((torch.stack(noise).mean() / still.square().mean()).sqrt())


def _first(model: PreTrainedModel, given: dict[str, Tensor]) -> Tensor:
    return next(tensor for _, tensor in outputs(model(**given, return_dict=True)))
