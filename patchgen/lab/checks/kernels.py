"""Whether the branch for kernels that no CPU has computes what the parent does, by kernels that are written out."""

from __future__ import annotations

import torch
from torch import Tensor

from patchgen.lab.checks.numbers import compare, insist_on_scene
from patchgen.lab.checks.trial import Nothing, Trial, Verdict, decided
from patchgen.lab.kernels import Package, has_branch, kernels_of

PACKAGES: dict[str, Package] = {"flash-attn": "flash_attn", "torch's kernels": "torch"}


def runs_kernels(trial: Trial) -> Verdict:
    """In bfloat16, which the kernels take; by the package that the case's detail names."""
    pair, scene, route = trial.pair, trial.case.scene, trial.pair.routes[0]
    if not has_branch(pair.module):
        raise Nothing("it has no branch for such kernels")
    insist_on_scene(pair, scene)
    pair.parent_sees(route, torch.bfloat16, scene)
    with kernels_of(pair.module, PACKAGES[trial.case.detail]) as calls:
        seen = pair.variant_sees(route, torch.bfloat16, scene)
    dropouts = {asked["dropout"] for asked in calls.asked}
    if not scene.train and dropouts - {0.0}:
        return Verdict("FAIL", f"outside training the kernels drop {sorted(dropouts)}")
    layers = pair.config().num_hidden_layers
    if len(calls.asked) < layers:
        return Verdict("FAIL", f"the kernels were called {len(calls.asked)} times for {layers} layers")
    return decided(trial, compare(pair, route, torch.bfloat16, scene, seen), route)


def zeros_at_padding(trial: Trial) -> Verdict:
    """The base model gives zeros where there is no token, as the part says, and not what happened to be there."""
    pair = trial.pair
    _, variant = pair.models(pair.routes[0], trial.dtype)
    inputs = pair.inputs(trial.case.scene, trial.dtype)
    base = variant.base_model.eval()
    if getattr(base, "pooler", None) is not None and not bool(inputs.real[0][:, 0].all()):
        raise Nothing("its pooler reads the first place of each row, which is padding here")
    given = {name: tensor for name, tensor in inputs.given.items() if name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        out = base(**given, output_hidden_states=True, use_cache=False, return_dict=True)
    states: tuple[Tensor, ...] = (out.last_hidden_state, *(out.hidden_states or ()))
    wrong = sum(bool(each[~inputs.real[0]].count_nonzero()) for each in states)
    return Verdict("FAIL" if wrong else "PASS", f"{wrong} of {len(states)} states are not zero at padding")
