"""Check that a recompute does not choose experts again.

A router that runs again can choose other experts, where two of them score nearly the same.  So a
mixture that is checkpointed keeps what its routers chose, by torch's selective checkpointing.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.evidence import gather_evidence
from patchgen.verify.observe.step import observe_step
from patchgen.verify.parts.scenario import Scenario

# What a modeling file imports to keep them.
KEEPS = "create_selective_checkpoint_contexts"
CHOICE = "aten.topk"


def check_choices(context: CheckContext) -> Verdict:
    """A checkpointed step makes as many choices as a plain one."""
    pair, scenario = context.pair, context.case.scenario
    if not hasattr(pair.module, KEEPS):
        raise NothingToCompare("it does not choose what a recompute keeps")
    plain = _count_choices(pair, replace(scenario, checkpointing=None))
    if not plain:
        raise NothingToCompare("no router chooses in it")
    checkpointed = _count_choices(pair, scenario)
    note = f"{checkpointed} choices in a checkpointed step, {plain} in a plain one"
    return Verdict("PASS" if checkpointed == plain else "FAIL", note)


def _count_choices(pair: Pair, scenario: Scenario) -> int:
    _, variant = pair.models(pair.routes[0], torch.float32)
    with gather_evidence(variant) as evidence:
        observe_step(variant, pair.inputs(scenario, torch.float32), scenario)
    return evidence.kernels[CHOICE]
