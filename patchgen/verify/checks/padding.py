"""Check the outputs at padding in a variant that does not compute it."""

from __future__ import annotations

import torch

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict


def check_padding(context: CheckContext) -> Verdict:
    """Check that the base model returns zeros at padding, as the part promises."""
    pair = context.pair
    _, variant = pair.models(pair.routes[0], context.dtype)
    inputs = pair.inputs(context.case.scenario, context.dtype)
    base = variant.base_model.eval()
    if not pair.is_causal and not bool(inputs.real[0][:, 0].all()):
        raise NothingToCompare("heads read the first place of each row, which is padding here")
    given = {
        name: tensor
        for name, tensor in inputs.given.items()
        if name in ("input_ids", "attention_mask")
    }
    with torch.no_grad():
        states = base(**given, use_cache=False, return_dict=True).last_hidden_state
    wrong = int(states[~inputs.real[0]].count_nonzero())
    return Verdict("FAIL" if wrong else "PASS", f"{wrong} values are not zero at padding")
