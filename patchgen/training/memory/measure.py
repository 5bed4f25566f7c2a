"""Measures one step on real tensors, with torch's allocators.

Weights, gradients and states are counted by their storages, and so is what is alive when the
forward pass has ended.  Peaks are what the profiler records on the CPU, or what the caching
allocator reports on CUDA, in a separate run without a dispatch mode.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import PreTrainedModel

from patchgen.training.memory.figures import Figures, is_activation
from patchgen.training.memory.inputs import batch_for
from patchgen.training.memory.ledger import Ledger
from patchgen.training.memory.predict import GRAINS
from patchgen.training.memory.ranks import distribute
from patchgen.training.memory.setup import Setup
from patchgen.training.memory.step import (
    build_model,
    create_optimizer_states,
    make_optimizer,
    optimizer_states,
    run_step,
)
from patchgen.training.memory.target import Target
from patchgen.training.memory.thread_frees import on_this_thread
from patchgen.training.silence import silence_models

# Makes a step, and calls its argument with the name of each phase that begins.
Step = Callable[[Callable[[str], None]], None]


def measure_step(target: Target, setup: Setup, seed: int = 0) -> Figures:
    """Return the figures of one step after the first, on this rank where there are several.

    The device must exist: see `patchgen.training.memory.fits.check_device`.
    """
    with silence_models():
        torch.manual_seed(seed)
        given = batch_for(target.model_class, target.config, setup.batch, setup.length)
        dtype = torch.bfloat16 if setup.precision == "pure-bf16" else None
        inputs = {
            n: t.to(setup.device, dtype if t.is_floating_point() else None)
            for n, t in given.items()
        }
        model = build_model(target, setup)
        called = (
            distribute(model, setup.layout, setup.device, setup.precision == "fsdp-mixed")
            if setup.layout
            else model
        )
        optimizer = make_optimizer(model.parameters(), setup.optimizer)
        create_optimizer_states(model, optimizer)
        step = partial(run_step, model, inputs, setup, optimizer, called=called)
        held = {
            "weights": _bytes(model.parameters(), setup),
            "buffers": _bytes(model.buffers(), setup),
            "optimizer": _bytes(optimizer_states(optimizer), setup),
            "inputs": _bytes(inputs.values(), setup),
        }
        exchange = _buckets(called)
        for _ in range(
            2 if setup.layout else 0
        ):  # DDP and FSDP2 make their buffers in the first steps
            step(lambda phase: None)
        with on_this_thread() if setup.layout and setup.device == "cpu" else nullcontext():
            peaks = (_on_cuda if setup.device == "cuda" else _on_cpu)(step)
            saved, gradients = _kept(model, inputs, setup, step)
        before = 0 if setup.device == "cuda" else sum(held.values()) + exchange
    return Figures(
        **held,
        gradients=gradients,
        saved=saved,
        peaks=tuple((phase, before + most) for phase, most in peaks.items()),
        exchange=exchange,
    )


def _buckets(called: nn.Module) -> int:
    """Return the bytes of DDP's gradient buckets."""
    if not isinstance(called, DistributedDataParallel):
        return 0
    sizes = str(called._get_ddp_logging_data()["bucket_sizes"])
    return sum(int(size) for size in sizes.split(","))


def _kept(
    model: PreTrainedModel, inputs: dict[str, Tensor], setup: Setup, step: Step
) -> tuple[int, int]:
    """Return what the first forward pass saves, and the gradients before the optimizer's step."""
    ledger = Ledger(setup.device, GRAINS.get(setup.device, 1))
    for tensors, role in (
        (model.parameters(), "weights"),
        (model.buffers(), "buffers"),
        (inputs.values(), "inputs"),
    ):
        ledger.note(tensors, role)
    bytes_of: dict[str, int] = {}

    def look(phase: str) -> None:
        ledger.begin(phase)
        alive = [allocation for allocation in ledger.allocations if allocation.died is None]
        if phase == "backward" and phase not in bytes_of:
            made = (
                allocation
                for allocation in alive
                if allocation.phase == "forward" or allocation.saved
            )
            bytes_of[phase] = sum(
                allocation.bytes for allocation in made if is_activation(allocation)
            )
        if phase == "optimizer":
            bytes_of[phase] = _bytes((parameter.grad for parameter in model.parameters()), setup)

    with ledger, ledger.following(model):
        step(look)
    return bytes_of["backward"], bytes_of["optimizer"]


def _bytes(tensors: Iterable[Tensor | None], setup: Setup) -> int:
    ledger = Ledger(setup.device, GRAINS.get(setup.device, 1))
    ledger.note(tensors, "counted")
    return sum(allocation.bytes for allocation in ledger.allocations)


def _on_cpu(step: Step) -> dict[str, int]:
    """Return the peak of each phase, beyond what was allocated before the step."""
    # Otherwise the profiler reports on stderr that it starts and stops.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    marks: list[Any] = []

    def begin(phase: str) -> None:
        for mark in marks[-1:]:
            mark.__exit__(None, None, None)
        marks.append(record_function(f"phase {phase}"))
        marks[-1].__enter__()

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(begin)
        marks[-1].__exit__(None, None, None)
    events = sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    most, now, phase = {"forward": 0, "backward": 0, "optimizer": 0}, 0, "forward"
    for event in events:
        if event.name().startswith("phase "):
            phase = event.name().removeprefix("phase ")
        elif event.name() == "[memory]":
            now += event.nbytes()
        most[phase] = max(most[phase], now)
    return most


def _on_cuda(step: Step) -> dict[str, int]:
    """Return the peak of each phase."""
    most = {"forward": 0, "backward": 0, "optimizer": 0}
    phases: list[str] = []

    def begin(phase: str) -> None:
        for before in phases[-1:]:
            most[before] = max(most[before], torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()
        phases.append(phase)

    step(begin)
    most["optimizer"] = max(most["optimizer"], torch.cuda.max_memory_allocated())
    return most
