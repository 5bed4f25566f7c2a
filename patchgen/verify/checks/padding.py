"""What stands where there is no token in a variant that computes none."""

from __future__ import annotations

import torch

from patchgen.verify.checks.context import Nothing, Trial, Verdict


def zeros_at_padding(trial: Trial) -> Verdict:
    """The base model gives zeros where there is no token, as the part says, and not what happened to be there."""
    pair = trial.pair
    _, variant = pair.models(pair.routes[0], trial.dtype)
    inputs = pair.inputs(trial.case.scene, trial.dtype)
    base = variant.base_model.eval()
    if not pair.is_causal and not bool(inputs.real[0][:, 0].all()):
        raise Nothing("heads read the first place of each row, which is padding here")
    given = {
        name: tensor
        for name, tensor in inputs.given.items()
        if name in ("input_ids", "attention_mask")
    }
    with torch.no_grad():
        states = base(**given, use_cache=False, return_dict=True).last_hidden_state
    wrong = int(states[~inputs.real[0]].count_nonzero())
    return Verdict("FAIL" if wrong else "PASS", f"{wrong} values are not zero at padding")
