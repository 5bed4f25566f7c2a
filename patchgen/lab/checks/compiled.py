"""Whether the variant computes under `torch.compile` what it computes without."""

from __future__ import annotations

from dataclasses import replace

import torch

from patchgen.lab.checks.numbers import insist_on_scene
from patchgen.lab.checks.trial import Trial, Verdict, decided
from patchgen.lab.parity import differences
from patchgen.lab.step import observe_step
from patchgen.lab.tolerance import REFORMULATED, REORDERED

# Inductor writes kernels of its own, with formulas of its own for norms and exponentials; others run torch's.
BOUNDS = {"inductor": REFORMULATED}


def compiles(trial: Trial) -> Verdict:
    """The compiled variant against itself uncompiled, by the backend that the case's detail names."""
    pair, scene, route = trial.pair, trial.case.scene, trial.pair.routes[0]
    insist_on_scene(pair, scene)
    inputs = pair.inputs(scene, torch.float32)
    _, variant = pair.models(route, torch.float32, fresh=True)
    reference = observe_step(variant, inputs, scene)
    torch._dynamo.reset()
    variant.compile(backend=trial.case.detail, dynamic=False)
    seen = observe_step(variant, inputs, scene)
    torch._dynamo.reset()
    compared = {name: t for name, t in seen.items() if not name.startswith("attentions")}
    bound = BOUNDS.get(trial.case.detail, REORDERED)
    return decided(trial, differences(reference, compared), replace(route, bound=bound, name="itself"))
