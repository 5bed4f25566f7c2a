"""Count what a variant saves of a training step, beside the model of transformers.

Nothing is timed, and no tensor has values: both models have the sizes of their configuration, and a
step runs on shapes, by the rules of CUDA's kernels (`memory.step`).  So a figure is the same on
every machine, and a model may be larger than it.

    llama_loss: 0.77 of the memory, 1.07 of the arithmetic, 1.02 of the launches
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from patchgen.training.memory.figures import summarize
from patchgen.training.memory.step import Setup, predict_step
from patchgen.training.memory.target import Target, default_length

ROWS = 32
LENGTH = 448  # tokens of a row: models that say 512 may need a few places themselves
LEAST = 0.05  # of anything: what gains less is not worth a file


@dataclass(frozen=True, slots=True)
class Work:
    """What one step takes.

    `kept` is the bytes that the backward pass needs, without weights; `flops` those of products and
    attention in both passes; `launches` the operations that write a tensor.
    """

    kept: int
    flops: int
    launches: int


@dataclass(frozen=True, slots=True)
class Gain:
    """What a variant takes in units of its parent's: 0.5 is half."""

    kept: float
    flops: float
    launches: float

    @property
    def most(self) -> float:
        """Return the largest share that is saved."""
        return 1 - min(self.kept, self.flops, self.launches)

    @property
    def is_worth_it(self) -> bool:
        return self.most >= LEAST


def count_work(target: Target, setup: Setup) -> Work:
    """Return what one step of `target` takes.

    Raises PatchgenError PG822 and ValueError as `predict_step` does.
    """
    trace = predict_step(target, setup)
    return Work(summarize(trace).saved, trace.flops, trace.launches)


def count_gain(variant: Target, parent: Target, setup: Setup) -> Gain:
    """Return what `variant` takes beside `parent`, which has no more than transformers gives it."""
    ours = count_work(variant, setup)
    stock = setup
    if not parent.model_class.supports_gradient_checkpointing:
        stock = replace(setup, checkpoint="none")
    theirs = count_work(parent, stock)
    return Gain(
        ours.kept / theirs.kept,
        ours.flops / theirs.flops,
        ours.launches / theirs.launches,
    )


def usual_setup(target: Target) -> Setup:
    """Return a step in bfloat16 on CUDA, with long rows, or half of what the model can take."""
    length = min(LENGTH, default_length(target.config))
    return Setup(ROWS, length, "pure-bf16", "sgd", device="cuda")
