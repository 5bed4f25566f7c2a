"""Check that a loss without logits is as exact as the loss of the logits."""

from __future__ import annotations

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict
from patchgen.verify.checks.numbers import require_scenario
from patchgen.verify.observe.step import observe_step

# Both sum the same products in float32.  A loss in bfloat16 is two hundred times as far away.
CLOSE = 2e-5


def check_loss_beside_logits(context: CheckContext) -> Verdict:
    """Compare the variant's loss with its loss from logits, which `loss_chunk_size = 0` gives.

    The states of both are equal bit for bit, whatever the dtype.  Beside the parent's loss, the
    noise of a narrow dtype would hide a loss that is summed in it.
    """
    pair, scenario = context.pair, context.case.scenario
    require_scenario(pair, scenario)
    if not hasattr(pair.facts.module, "causal_loss"):
        raise NothingToCompare("it computes logits, of the labelled tokens alone")
    _, variant = pair.models(pair.routes[0], context.dtype, fresh=True)
    inputs = pair.inputs(scenario, context.dtype)
    short = observe_step(variant, inputs, scenario).get("loss")
    variant.config.loss_chunk_size = 0
    whole = observe_step(variant, inputs, scenario).get("loss")
    if short is None or whole is None:
        raise NothingToCompare("it has no loss here")
    difference = float((short.double() - whole.double()).abs() / whole.double().abs())
    note = "the loss of logits that are all there"
    return Verdict(
        "PASS" if difference <= CLOSE else "FAIL", note, difference, CLOSE, unit="relative"
    )
