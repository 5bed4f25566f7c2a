"""Computes what one rank holds and sends under DeepSpeed's ZeRO, from the trace of one process.

DeepSpeed keeps gradients and states in flat buffers, which do not run on fake tensors.  By
Rajbhandari et al. 2020 (arXiv:1910.02054, section 5 and figure 1) each of N ranks has an N-th of
the states; from stage 2 on also of the gradients, in stage 3 also of the weights.  Activations stay
whole.  By section 7, gradients are reduce-scattered and weights gathered once a step; in stage 3
weights are gathered for the forward and for the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from patchgen.training.memory.collectives import Exchange
from patchgen.training.memory.ledger import GATHERED, Allocation
from patchgen.training.memory.predict import StepTrace, predict_step
from patchgen.training.memory.setup import Setup
from patchgen.training.memory.target import Target

# The first stage that divides each role among ranks.
_SPREAD_FROM = {"optimizer": 1, "gradients": 2, "weights": 3}
# The default of stage3_max_live_parameters: the most parameters that stage 3 has gathered.
LIVE = 10**9


def predict(target: Target, setup: Setup) -> StepTrace:
    """Return the trace of one step: of one process, or of the first rank of `setup.layout`."""
    if setup.layout is not None and setup.layout.computed:
        return compute_rank(target, setup)
    return predict_step(target, setup)


def compute_rank(target: Target, setup: Setup) -> StepTrace:
    """Return the trace of a rank of `setup.layout`, made from that of one process.

    "fsdp-mixed" is DeepSpeed's bf16: weights and gradients in bfloat16, and a float32 copy of the
    weights with the states.
    """
    assert setup.layout is not None
    stage, ranks = int(setup.layout.engine.removeprefix("zero")), setup.layout.ranks
    mixed = setup.precision == "fsdp-mixed"
    alone = predict_step(
        target, replace(setup, layout=None, precision="pure-bf16" if mixed else setup.precision)
    )
    wide = 2 if mixed else 1  # states are float32, but bfloat16 in the trace
    allocations = [_part(allocation, stage, ranks, wide) for allocation in alone.allocations]
    copies = 4 * alone.parameters // ranks if mixed else 0
    more = [_held("optimizer", copies, alone), _held(GATHERED, _live(alone, stage), alone)]
    return replace(
        alone,
        setup=setup,
        allocations=tuple(sorted([*more, *allocations], key=lambda allocation: allocation.born)),
        exchanges=tuple(_exchanges(alone, stage, ranks)),
    )


def _part(allocation: Allocation, stage: int, ranks: int, wide: int) -> Allocation:
    """Return what one rank has of a storage."""
    size = allocation.bytes * (wide if allocation.role == "optimizer" else 1)
    spread = stage >= _SPREAD_FROM.get(allocation.role, stage + 1)
    return replace(allocation, bytes=-(-size // ranks) if spread else size)


def _held(role: str, size: int, trace: StepTrace) -> Allocation:
    """Return an allocation of this size that lasts the whole step."""
    return Allocation(size, (size,), torch.uint8, role, "", "", "before", 0)


def _live(trace: StepTrace, stage: int) -> int:
    """Return the most that stage 3 has gathered at a time."""
    weights = sum(
        allocation.bytes for allocation in trace.allocations if allocation.role == "weights"
    )
    return min(weights, weights * LIVE // trace.parameters) if stage == 3 else 0


def _exchanges(trace: StepTrace, stage: int, ranks: int) -> Iterator[Exchange]:
    weights = sum(
        allocation.bytes for allocation in trace.allocations if allocation.role == "weights"
    )
    passes = trace.setup.accumulate
    # Stage 1 has whole gradients, and reduces them after the last pass.
    yield from [Exchange("reduce-scatter", weights, ranks, "backward")] * (
        1 if stage == 1 else passes
    )
    if stage < 3:
        yield Exchange("all-gather", weights, ranks, "optimizer")
        return
    for phase in ("forward", "backward"):
        yield from [Exchange("all-gather", weights, ranks, phase)] * passes
