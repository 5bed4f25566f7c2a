"""Measures one step on real tensors, with torch's allocators.

Weights, gradients and states are counted by their storages, and so is what is alive when the
forward pass has ended.  Peaks are what the profiler records on the CPU, or what the caching
allocator reports on CUDA, in a separate run without a dispatch mode.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

from patchgen.training.memory.figures import Figures, saved_allocations
from patchgen.training.memory.step import (
    GRAINS,
    Setup,
    batch_of,
    build_model,
    cast_inputs,
    make_optimizer,
    optimizer_states,
    run_step,
    track_state,
)
from patchgen.training.memory.target import Target
from patchgen.training.memory.tracker import PHASES, Tracker
from patchgen.training.silence import silence_models

# Makes a step, and calls its argument with the name of each phase that begins.
Step = Callable[[Callable[[str], None]], None]


def measure_step(target: Target, setup: Setup) -> Figures:
    """Return the figures of one step after the first.

    The device must exist: see `patchgen.training.memory.fits.check_device`.
    """
    with silence_models():
        torch.manual_seed(0)
        given = batch_of(target, setup)
        inputs = {name: value.to(setup.device) for name, value in cast_inputs(given, setup).items()}
        model = build_model(target, setup)
        optimizer = make_optimizer(model, setup)
        step = partial(run_step, model, inputs, setup, optimizer)
        held = {
            "weights": _bytes(model.parameters(), setup),
            "buffers": _bytes(model.buffers(), setup),
            "optimizer": _bytes(optimizer_states(optimizer), setup),
            "inputs": _bytes(inputs.values(), setup),
        }
        peaks = (peaks_on_cuda if setup.device == "cuda" else peaks_on_cpu)(step)
        tracker = Tracker(setup.device, GRAINS.get(setup.device, 1))
        track_state(tracker, model, inputs, optimizer)
        gradients = 0

        def begin(phase: str) -> None:
            nonlocal gradients
            tracker.begin(phase)
            if phase == "optimizer":
                gradients = _bytes((weight.grad for weight in model.parameters()), setup)

        # Below a mode, torch would mark what it is to compile as not to be compiled, for good.
        with tracker, torch.compiler.set_stance("force_eager"):
            step(begin)
            activations = saved_allocations(tracker.allocations, tracker.starts)
            saved = sum(allocation.bytes for allocation in activations)
    if setup.device == "cpu":
        before = sum(held.values())
        peaks = {phase: before + most for phase, most in peaks.items()}
    return Figures(**held, gradients=gradients, saved=saved, peaks=peaks)


def _bytes(tensors: Iterable[Tensor | None], setup: Setup) -> int:
    tracker = Tracker(setup.device, GRAINS.get(setup.device, 1))
    tracker.hold((tensor for tensor in tensors if tensor is not None), "counted")
    return sum(allocation.bytes for allocation in tracker.allocations)


def peaks_on_cpu(step: Step) -> dict[str, int]:
    """Return the peak of each phase, beyond what was allocated before the step."""
    # Otherwise the profiler reports on stderr that it starts and stops.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    mark = ExitStack()

    def begin(phase: str) -> None:
        mark.close()
        mark.enter_context(record_function(f"phase {phase}"))

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler, mark:
        step(begin)
    events = sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    most = dict.fromkeys(PHASES[1:], 0)
    held = 0
    phase = "forward"
    for event in events:
        if event.name().startswith("phase "):
            phase = event.name().removeprefix("phase ")
        elif event.name() == "[memory]":
            held += event.nbytes()
        most[phase] = max(most[phase], held)
    return most


def peaks_on_cuda(step: Step) -> dict[str, int]:
    """Return the peak of each phase."""
    most = dict.fromkeys(PHASES, 0)
    running = PHASES[0]

    def begin(phase: str) -> None:
        nonlocal running
        most[running] = max(most[running], torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()
        running = phase

    step(begin)
    begin(PHASES[0])
    del most[PHASES[0]]
    return most
