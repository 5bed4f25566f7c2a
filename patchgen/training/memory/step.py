"""One training step as `Trainer` makes it, on real tensors, or on shapes to predict its memory.

In: a `Target`, the model and its configuration, and a `Setup`, one way to train it.  Out of
`predict_step`: a `StepTrace` with every storage that the step would allocate, when, and in which
phase.  `run_step` makes the same step with real tensors, to measure it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only
from transformers import PreTrainedModel

from patchgen.runtime.checkpointing import options_of, switch_on
from patchgen.syntax.errors import Location, PatchgenError, describe_error
from patchgen.training import precision
from patchgen.training.memory.cuda_kernels import HALVES, device_label, use_kernels
from patchgen.training.memory.depth import leave_layers_out
from patchgen.training.memory.shape_mode import is_code_of_a_model, shapes_only
from patchgen.training.memory.target import Target, batch_for, pad, setup_error
from patchgen.training.memory.tracker import Allocation, Tracker
from patchgen.training.optimizers import build_optimizer
from patchgen.training.parallel.engine import Engine
from patchgen.training.silence import silence_models
from patchgen.verifying.observe.step import takes_cache

OPTIMIZERS = ("sgd", "momentum", "adamw", "adamw-foreach", "adafactor")
CHECKPOINTS = ("none", "full", "selective")
DEVICES = ("cpu", "cuda")
# CUDA's caching allocator rounds up to a multiple of this.
GRAINS = {"cuda": 512}
# What models raise for a configuration that they cannot be built of.
BUILD_ERRORS = (RuntimeError, IndexError, TypeError, AttributeError, KeyError, ImportError)


@dataclass(frozen=True, slots=True)
class Setup:
    """One way to train.

    Each of `accumulate` forward and backward passes has `batch` rows of `length` tokens.
    """

    batch: int = 1
    length: int = 512
    precision: str = "fp32"
    optimizer: str = "adamw"
    checkpoint: str = "none"
    every: int = 1  # every how many layers one is checkpointed
    accumulate: int = 1
    attention: str = ""  # "": the model's default
    padded: bool = False  # the k-th of N rows ends after k N-ths of its tokens
    device: str = "cpu"
    engine: Engine = Engine()

    def __post_init__(self) -> None:
        """Raise PatchgenError PG825 for unknown values."""
        for name, values in (
            ("precision", precision.NAMES),
            ("optimizer", OPTIMIZERS),
            ("checkpoint", CHECKPOINTS),
            ("device", DEVICES),
        ):
            value = getattr(self, name)
            if value not in values:
                hint = f"there are {', '.join(values)}"
                raise setup_error(f"--{name} {value}", "is not known", hint)
        if self.every > 1 and self.checkpoint == "none":
            what = "says which layers are checkpointed, and --checkpoint says that none is"
            raise setup_error(f"--every {self.every}", what, "--checkpoint full")

    def describe(self) -> str:
        """Return the setup in words: "batch 1, length 512, fp32, adamw, cpu"."""
        every = f" of every {self.every} layers" if self.every > 1 else ""
        parts = [
            f"batch {self.batch}, length {self.length}, {self.precision}, {self.optimizer}",
            f"{self.attention} attention" if self.attention else "",
            "padded" if self.padded else "",
            f"{self.checkpoint} checkpointing{every}" if self.checkpoint != "none" else "",
            f"{self.accumulate} accumulated" if self.accumulate > 1 else "",
            f"{self.engine.name} on {self.engine.launch.world:,} ranks"
            if self.engine.is_distributed
            else "",
        ]
        return ", ".join([*filter(None, parts), self.device])


@dataclass(frozen=True)
class StepTrace:
    """What happened in one step: every storage, the phases, and the values that were assumed."""

    target: Target
    setup: Setup
    parameters: int
    allocations: tuple[Allocation, ...]
    starts: tuple[tuple[int, str], ...]  # the moment at which each phase begins
    end: int  # the moment after the last phase
    vocabulary: int  # the length of a row of logits; 0 where the model has none
    base: str  # the prefix of the base model's modules; "" where the model is its own
    classes: dict[str, str]  # by module path
    flops: int  # of products and attention, forward and backward
    launches: int  # operations that write a tensor
    left_out: int = 0  # layers, of each of the longest stacks
    assumed: tuple[str, ...] = ()


def predict_step(target: Target, setup: Setup, layers: int | None = None) -> StepTrace:
    """Return the trace of one training step after the first, on one process.

    With `layers` a deep model has so many of its equal layers, and the others are left out.
    Raises PatchgenError where the forward needs values that depend on weights, and ValueError where
    the model or its inputs cannot be built.
    """
    batch = batch_of(target, setup)
    module = sys.modules[target.model_class.__module__]
    device = setup.device
    label = device_label(device)
    with silence_models(), shapes_only(module, device=device) as shapes, use_kernels(device):
        model = build_model(target, setup)
        left_out = 0 if layers is None else leave_layers_out(model, layers)
        shapes.assumed.clear()  # of initial values, which change no size
        inputs = {}
        for name, value in cast_inputs(batch, setup).items():
            inputs[name] = torch.empty_like(value, device=label)
            shapes.values.tell(inputs[name], value)
        optimizer = make_optimizer(model, setup)
        tracker = Tracker(label, GRAINS.get(device, 1))
        track_state(tracker, model, inputs, optimizer)
        stand_ins: dict[str, Any] = {}
        # What the part `loss` compiles inside its operator is one kernel.  Called below a mode, it
        # would never be compiled again: torch marks its code.
        if hasattr(module, "in_one_kernel"):
            stand_ins["compiled"] = tracker.as_one_kernel
        # No step reads the logits that it defers, and tensors without values have no subclass.
        if hasattr(module, "DeferredLogits"):
            stand_ins["defer"] = lambda compute, shape, like, *more: like.new_empty(())
        with tracker, patch.dict(vars(module), stand_ins):
            run_step(model, inputs, setup, optimizer, tracker.begin)
            end = tracker.now
            allocations = tuple(tracker.allocations)
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    weight = getattr(head, "weight", None)
    return StepTrace(
        target,
        setup,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        allocations=allocations,
        starts=tuple(tracker.starts),
        end=end,
        vocabulary=int(weight.shape[0]) if isinstance(weight, Tensor) else 0,
        base="" if model.base_model is model else model.base_model_prefix,
        classes={name: type(module).__name__ for name, module in model.named_modules()},
        flops=tracker.flops,
        launches=tracker.launches,
        left_out=left_out,
        assumed=tuple(dict.fromkeys(shapes.assumed)),
    )


def batch_of(target: Target, setup: Setup) -> dict[str, Tensor]:
    """Return the arguments of one forward pass.  Raises ValueError where none are known."""
    batch = batch_for(target.model_class, target.config, setup.batch, setup.length)
    return pad(batch, target.model_class) if setup.padded else batch


def track_state(
    tracker: Tracker,
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
) -> None:
    """Record the tensors that exist before a step, each under its category."""
    tracker.hold(model.parameters(), "weights")
    tracker.hold(model.buffers(), "buffers")
    tracker.hold(inputs.values(), "inputs")
    tracker.hold(optimizer_states(optimizer), "optimizer")


def cast_inputs(batch: Mapping[str, Tensor], setup: Setup) -> dict[str, Tensor]:
    """Return the inputs, floats in the dtype of the weights where that is bfloat16."""
    is_narrow = setup.precision == "pure-bf16"
    return {
        name: value.bfloat16() if is_narrow and value.is_floating_point() else value
        for name, value in batch.items()
    }


def build_model(target: Target, setup: Setup) -> PreTrainedModel:
    """Return the model on the device of `setup`, in training mode.

    Raises ValueError for a configuration, an attention or a checkpoint policy that it does not
    support.
    """
    config = type(target.config)(**target.config.to_dict())
    more = {"attn_implementation": setup.attention} if setup.attention else {}
    dtype = getattr(torch, precision.weights_in(setup.precision))
    name = target.model_class.__name__
    with torch.device(device_label(setup.device)):
        try:
            model: PreTrainedModel = target.model_class._from_config(config, dtype=dtype, **more)
        except BUILD_ERRORS as error:
            raise ValueError(f"{name} cannot be built: {describe_error(error, 300)}") from error
    model.train()
    if setup.checkpoint != "none":
        if not model.supports_gradient_checkpointing:
            what = "has no activation checkpointing: the part checkpoint gives it"
            raise ValueError(f"{name} {what}")
        every = {"every_n_layers": setup.every} if setup.every > 1 else {}
        switch_on(model, options_of(setup.checkpoint), **every)
    return model


def make_optimizer(model: nn.Module, setup: Setup) -> torch.optim.Optimizer:
    """Build the optimizer, and make a first step: it creates the states, which later steps have."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = build_optimizer(setup.optimizer, trained)
    for parameter in trained:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return optimizer


def optimizer_states(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return every tensor that the optimizer keeps."""
    tensors = []
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                tensors.append(value)
    return tensors


def run_step(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    setup: Setup,
    optimizer: torch.optim.Optimizer,
    begin: Callable[[str], None] = lambda phase: None,
) -> None:
    """Run forward and backward for each accumulated batch, then the optimizer.

    `begin` is called with each phase.
    """
    for _ in range(setup.accumulate):
        begin("forward")
        loss = _loss(model, inputs, setup)
        begin("backward")
        (loss / setup.accumulate if setup.accumulate > 1 else loss).backward()
        del loss
    begin("optimizer")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _loss(model: PreTrainedModel, inputs: Mapping[str, Tensor], setup: Setup) -> Tensor:
    """Run the forward under the autocast of `setup`, and return the loss.

    Raises PatchgenError PG822 where the forward fails, and ValueError where it gives no loss.
    """
    more: dict[str, Any] = {"use_cache": False} if takes_cache(type(model)) else {}
    half = precision.autocast_to(setup.precision)
    label = device_label(setup.device)
    with torch.autocast(label, getattr(torch, half)) if half else nullcontext():
        try:
            out = model(**inputs, **more)
        except Exception as error:  # I-BERT asserts that no value is NaN
            what = f"the model's forward fails: {describe_error(error, 300)}"
            hint = "try a shorter --length, another --attention, or other values by --set"
            raise PatchgenError("PG822", _origin(error), what, hint) from error
        if half:  # Accelerate gives Trainer the outputs in float32
            out = tree_map_only(
                Tensor, lambda leaf: leaf.float() if leaf.dtype in HALVES else leaf, out
            )
        loss: Tensor | None = getattr(out, "loss", None)
        if loss is not None:
            return loss
        # A loss over every output, for a class without a loss.
        means = []
        for output in out.to_tuple():
            if isinstance(output, Tensor) and output.requires_grad:
                means.append(output.float().mean())
        if not means:
            raise ValueError("the forward gives nothing that can be derived")
        return torch.stack(means).sum()


def _origin(error: BaseException) -> Location:
    """Return the innermost line of the model in the traceback of `error`."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_code_of_a_model(frame.filename):
            return Location(Path(frame.filename).name, frame.lineno or 0, 1)
    return Location("the model")
