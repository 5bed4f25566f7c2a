"""Count what a variant saves of a training step, beside the model of transformers.

Nothing is timed, and no tensor has values: both models have the sizes of their configuration, and a
step runs on shapes, by the rules of CUDA's kernels (`memory.step`).  So a figure is the same on
every machine, and a model may be larger than it.

    llama_loss: 0.77 of the memory, 1.07 of the arithmetic, 1.02 of the launches
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from transformers import PreTrainedModel

from patchgen.syntax.errors import PatchgenError, one_line
from patchgen.training.memory.figures import summarize
from patchgen.training.memory.step import Setup, StepTrace, predict_step
from patchgen.training.memory.target import Target, default_length

VARLEN = "varlen"  # patchgen's own attention
# Steps in which a gain may show, and how each differs from a usual one in bfloat16.
STEPS: Mapping[str, Mapping[str, Any]] = {
    "full rows": {},
    "padded rows": {"padded": True},
    # A causal model computes no padding where attention takes the lengths of texts.
    "padded rows under varlen": {"padded": True, "attention": VARLEN},
    "checkpointing": {"checkpoint": "full"},
    "autocast": {"precision": "amp-bf16"},
}
ROWS = 32
LENGTH = 448  # tokens of a row: models that say 512 may need a few places themselves
FEW = (2, 3, 4)  # layers that a deep model is counted with
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

    def plus(self, other: Work, times: int) -> Work:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Work(*(mine + times * more for mine, more in pairs))


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

    def __str__(self) -> str:
        parts = f"{self.kept:.2f} of the memory, {self.flops:.2f} of the arithmetic"
        return f"{parts}, {self.launches:.2f} of the launches"

    @property
    def is_worth_it(self) -> bool:
        return self.most >= LEAST


def count_work(target: Target, setup: Setup) -> Work:
    """Return what one step of `target` takes.

    A deep model is counted with a few of its layers where each of them adds the same.  Raises
    PatchgenError PG822 and ValueError as `predict_step` does.
    """
    counted = _count_by_layers(target, setup)
    return counted or _work_of(predict_step(target, setup))


def _count_by_layers(target: Target, setup: Setup) -> Work | None:
    """Return what all layers take; None where they do not add the same, or none is left out."""
    works: list[Work] = []
    left_out = 0
    try:
        for layers in FEW:
            trace = predict_step(target, setup, layers)
            works.append(_work_of(trace))
            if not trace.left_out:
                return works[0]
            left_out = trace.left_out
    except (PatchgenError, ValueError, RuntimeError, LookupError, TypeError, AttributeError):
        return None  # of a model that needs all of its layers
    least, middle, most = works
    one_more = middle.plus(least, -1)
    return most.plus(one_more, left_out) if most.plus(middle, -1) == one_more else None


def _work_of(trace: StepTrace) -> Work:
    return Work(summarize(trace).saved, trace.flops, trace.launches)


def count_gain(variant: Target, parent: Target, setup: Setup) -> Gain:
    """Return what `variant` takes beside `parent`, which has no more than transformers gives it."""
    ours = count_work(variant, setup)
    stock = replace(setup, attention="") if setup.attention == VARLEN else setup
    if not parent.model_class.supports_gradient_checkpointing:
        stock = replace(stock, checkpoint="none")
    theirs = count_work(parent, stock)
    return Gain(
        ours.kept / theirs.kept,
        ours.flops / theirs.flops,
        ours.launches / theirs.launches,
    )


def count_a_gain(
    variant_class: type[PreTrainedModel],
    parent_class: type[PreTrainedModel],
    steps: Iterable[str],
) -> tuple[str, Gain]:
    """Return the first of `steps` whose gain is worth it, else that with the largest; and the gain.

    Both models have the default sizes of their configuration.  Raises ValueError where none of the
    steps can be counted, or none runs what was changed, with the reasons.
    """
    variant = Target(variant_class.__name__, variant_class, variant_class.config_class())
    parent = Target(parent_class.__name__, parent_class, parent_class.config_class())
    gains: dict[str, Gain] = {}
    reasons: list[str] = []
    for step in steps:
        setup = replace(usual_setup(parent), **STEPS[step])
        try:
            gains[step] = count_gain(variant, parent, setup)
            if gains[step].is_worth_it:
                return step, gains[step]
        except (PatchgenError, ValueError, RuntimeError, TypeError, AttributeError) as error:
            reasons.append(f"{step}: {one_line(error, 200)}")
    if gains and all(gain == Gain(1, 1, 1) for gain in gains.values()):
        # A model of images that is given text, for one: what does not run gains and costs nothing.
        reasons = ["it takes exactly what its parent does, as if nothing changed had run"]
        gains = {}
    if not gains:
        raise ValueError("; ".join(reasons))
    best = max(gains, key=lambda step: gains[step].most)
    return best, gains[best]


def usual_setup(target: Target) -> Setup:
    """Return a step in bfloat16 on CUDA, with long rows, or half of what the model can take."""
    length = min(LENGTH, default_length(target.config))
    return Setup(ROWS, length, "pure-bf16", "sgd", device="cuda")
