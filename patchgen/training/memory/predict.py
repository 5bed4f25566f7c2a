"""Predicts what a step holds: runs the model on shapes, and records its storages."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from patchgen.training.memory.collectives import Exchange
from patchgen.training.memory.cuda_kernels import device_label, use_kernels
from patchgen.training.memory.inputs import batch_for
from patchgen.training.memory.ledger import Allocation, Ledger
from patchgen.training.memory.ranks import distribute, simulate_first_rank
from patchgen.training.memory.setup import Setup
from patchgen.training.memory.shape_mode import Known, shapes_only
from patchgen.training.memory.step import (
    build_model,
    create_optimizer_states,
    make_optimizer,
    optimizer_states,
    run_step,
)
from patchgen.training.memory.target import Target
from patchgen.training.silence import silence_models

# CUDA's caching allocator rounds up to a multiple of this.
GRAINS = {"cuda": 512}


@dataclass(frozen=True)
class StepTrace:
    """What happened in one step: every storage, the phases, and the values that were assumed."""

    target: Target
    setup: Setup
    parameters: int
    allocations: tuple[Allocation, ...]
    starts: tuple[tuple[int, str], ...]
    end: int  # the moment after the last
    vocabulary: int  # the length of a row of logits; 0 where the model has none
    base: str  # the prefix of the base model's modules; "" where the model is its own
    classes: dict[str, str]  # by module path
    assumed: tuple[str, ...] = ()
    exchanges: tuple[Exchange, ...] = ()


def predict_step(target: Target, setup: Setup) -> StepTrace:
    """Return the trace of one training step after the first.

    Raises PatchgenError where the forward needs values that depend on weights, and ValueError where
    the model or its inputs cannot be built.
    """
    given = batch_for(target.model_class, target.config, setup.batch, setup.length)
    module = sys.modules[target.model_class.__module__]
    spread = setup.layout if setup.layout and not setup.layout.computed else None
    with (
        silence_models(),
        simulate_first_rank(spread),
        shapes_only(module, device=setup.device) as known,
        use_kernels(setup.device),
    ):
        model = build_model(target, setup)
        count = sum(parameter.numel() for parameter in model.parameters())
        classes = {name: type(module).__name__ for name, module in model.named_modules()}
        known.assumed.clear()  # of initial values, which change no size
        inputs = _make_fake_inputs(given, known, setup)
        ledger = Ledger(device_label(setup.device), GRAINS.get(setup.device, 1))
        called: nn.Module = model
        if spread:
            with ledger:  # DDP allocates buckets, which stay
                called = distribute(
                    model, spread, device_label(setup.device), setup.precision == "fsdp-mixed"
                )
            ledger.forget_dead()
        optimizer = make_optimizer(model.parameters(), setup.optimizer)
        create_optimizer_states(model, optimizer)
        ledger.note(model.parameters(), "weights")
        ledger.note(model.buffers(), "buffers")
        ledger.note(inputs.values(), "inputs")
        ledger.note(optimizer_states(optimizer), "optimizer")
        with ledger, ledger.following(model):
            run_step(model, inputs, setup, optimizer, ledger.begin, called)
            ledger.close()
    base = "" if model.base_model is model else model.base_model_prefix
    return StepTrace(
        target,
        setup,
        count,
        tuple(ledger.allocations),
        tuple(ledger.starts),
        ledger.now,
        _vocabulary(model),
        base,
        classes,
        tuple(dict.fromkeys(known.assumed)),
        tuple(ledger.exchanges),
    )


def _make_fake_inputs(given: dict[str, Tensor], known: Known, setup: Setup) -> dict[str, Tensor]:
    """Return fake tensors with the shapes of `given`, and record their values."""
    dtype = torch.bfloat16 if setup.precision == "pure-bf16" else None
    inputs = {}
    for name, value in given.items():
        value = value.to(dtype) if value.is_floating_point() and dtype else value
        inputs[name] = torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=device_label(setup.device)
        )
        known.values.tell(inputs[name], value)
    return inputs


def _vocabulary(model: nn.Module) -> int:
    """Return the number of logits for a token; 0 where the model has no head."""
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    weight = getattr(head, "weight", None)
    return int(weight.shape[0]) if isinstance(weight, Tensor) else 0
