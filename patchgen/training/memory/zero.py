"""What one rank holds and sends under DeepSpeed's ZeRO: computed from what one process alone holds, not traced.

DeepSpeed keeps gradients and states in flat buffers of its own, which fake tensors do not run.  By Rajbhandari et al.
2020 (arXiv:1910.02054, section 5 and figure 1) each stage leaves a rank an N-th of the states, from stage 2 on of the
gradients, in stage 3 of the weights; activations stay as they are.  Section 7 of it counts what is sent: gradients are
reduce-scattered and weights gathered once a step, in stage 3 gathered for the forward and the backward pass.
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

# Which stage begins to spread what.
_SPREAD_FROM = {"optimizer": 1, "gradients": 2, "weights": 3}
# The most that stage 3 holds gathered (stage3_max_live_parameters, by default), in parameters.
LIVE = 10**9


def predict(target: Target, setup: Setup) -> StepTrace:
    """The books of one step: of one process, or of the first rank of `setup.layout`."""
    if setup.layout is not None and setup.layout.computed:
        return compute_rank(target, setup)
    return predict_step(target, setup)


def compute_rank(target: Target, setup: Setup) -> StepTrace:
    """The books of a rank of `setup.layout`, made from those of one process.

    "fsdp-mixed" is DeepSpeed's bf16: weights and gradients in bfloat16, and a float32 copy of weights beside the
    states.
    """
    assert setup.layout is not None
    stage, ranks = int(setup.layout.engine.removeprefix("zero")), setup.layout.ranks
    mixed = setup.precision == "fsdp-mixed"
    alone = predict_step(
        target, replace(setup, layout=None, precision="pure-bf16" if mixed else setup.precision)
    )
    wide = 2 if mixed else 1  # states in float32, of which the books have bfloat16 ones
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
    """What of a storage is on one rank."""
    size = allocation.bytes * (wide if allocation.role == "optimizer" else 1)
    spread = stage >= _SPREAD_FROM.get(allocation.role, stage + 1)
    return replace(allocation, bytes=-(-size // ranks) if spread else size)


def _held(role: str, size: int, trace: StepTrace) -> Allocation:
    """A storage of this size from the beginning to the end of the step."""
    return Allocation(size, (size,), torch.uint8, role, "", "", "before", 0)


def _live(trace: StepTrace, stage: int) -> int:
    """The most of stage 3's gathered weights."""
    weights = sum(
        allocation.bytes for allocation in trace.allocations if allocation.role == "weights"
    )
    return min(weights, weights * LIVE // trace.parameters) if stage == 3 else 0


def _exchanges(trace: StepTrace, stage: int, ranks: int) -> Iterator[Exchange]:
    weights = sum(
        allocation.bytes for allocation in trace.allocations if allocation.role == "weights"
    )
    passes = trace.setup.accumulate
    # Stage 1 keeps whole gradients, and reduces them when the last pass has ended.
    yield from [Exchange("reduce-scatter", weights, ranks, "backward")] * (
        1 if stage == 1 else passes
    )
    if stage < 3:
        yield Exchange("all-gather", weights, ranks, "optimizer")
        return
    for phase in ("forward", "backward"):
        yield from [Exchange("all-gather", weights, ranks, phase)] * passes
