"""A contestant's turn: the weights are set back, some steps are run, the last of them timed.

The first turn also finds whether its numbers are right, and what really ran.
"""

from __future__ import annotations

import statistics
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from patchgen.training.bench.compiling import record_masks
from patchgen.training.bench.kernels import attention_kernels
from patchgen.training.bench.reference import (
    NARROW,
    WIDE,
    Bounds,
    Deviation,
    Reference,
    deviation,
    norms_of,
)
from patchgen.training.bench.result import Result
from patchgen.training.bench.saved_activations import saved_bytes
from patchgen.training.bench.setup import CaseSetup, PreparedEntry
from patchgen.training.bench.step import Trainer, autocast, products
from patchgen.training.optimizers import build_optimizer
from patchgen.training.rate.timing import time_runs


@dataclass(frozen=True, slots=True)
class Steps:
    """Of one turn: those that warm up, and those that are timed."""

    warm: int
    timed: int


# One step of each is enough to see that it runs.
TINY_ROUNDS = (Steps(1, 1),)


def first_round(
    setup: CaseSetup, prepared: PreparedEntry, reference: Reference, steps: Steps
) -> Result:
    """The result of a contestant that has not run before."""
    trainer = _trainer(setup, prepared)
    replays = prepared.entry.compiled == "graphs" and setup.scale.device.startswith("cuda")
    before = _in_use() if replays else None
    with prepared.on(), products(prepared.entry.precision):
        loss, apart = _first_step(trainer, setup, reference)
        saved = _saved(trainer, setup)
        setup.forget_gradients(prepared)
        losses, seconds, peak = _steps(trainer, steps, setup.scale.device)
        if before is not None and peak is not None:
            peak = max(peak, before.allocated + _in_use().driver - before.driver)
        kernels = attention_kernels(trainer.backward, setup.scale.device)
        block = _block_seconds(setup, prepared)
    setup.forget_gradients(prepared)
    return replace(
        _judged(apart, bounds_of(setup, prepared)),
        turns=() if setup.scale.tiny else (tuple(seconds),),
        tokens=round(statistics.mean(batch.tokens for batch in trainer.batches)),
        samples=round(statistics.mean(len(batch.texts) for batch in trainer.batches)),
        peak=peak,
        driver=before is not None,
        saved=saved,
        losses=(loss, losses[-1]),
        masks=tuple(sorted(set(prepared.masks))),
        kernels=kernels,
        block=() if setup.scale.tiny else block,
    )


def _first_step(
    trainer: Trainer, setup: CaseSetup, reference: Reference
) -> tuple[float, Deviation]:
    """The loss at the weights where all begin, and how far it and its gradients are from the reference's."""
    prepared = trainer.prepared
    prepared.model.train(not setup.case.dropout)
    with nullcontext() if prepared.entry.compiled else record_masks(prepared.masks):
        loss = float(trainer.backward())
    prepared.model.train()
    for whole in prepared.fused_weights:
        whole.show_gradient()
    scale = trainer.scaler.get_scale() if trainer.scaler else 1.0
    return loss, deviation(reference, loss, norms_of(setup, scale), setup)


def _steps(
    trainer: Trainer, steps: Steps, device: str
) -> tuple[list[float], list[float], int | None]:
    """Losses and seconds of the timed steps, and the peak of what was allocated in them."""
    for _ in range(steps.warm):
        trainer.step()
    _forget_peak(device)
    losses: list[Tensor] = []
    seconds = time_runs(lambda: losses.append(trainer.step()), steps.timed, device)
    return [float(loss) for loss in losses], seconds, _peak(device)


def _judged(apart: Deviation, bounds: Bounds) -> Result:
    right = apart.within(bounds)
    note = "" if right else _told(apart, bounds)
    return Result("ok" if right else "wrong", note, apart=(apart.loss, apart.norm, apart.worst))


def next_round(setup: CaseSetup, prepared: PreparedEntry, steps: Steps, result: Result) -> Result:
    """`result` with the times of one more turn."""
    trainer = _trainer(setup, prepared)
    with prepared.on(), products(prepared.entry.precision):
        for _ in range(steps.warm):
            trainer.step()
        seconds = time_runs(trainer.step, steps.timed, setup.scale.device)
    setup.forget_gradients(prepared)
    return replace(result, turns=(*result.turns, tuple(seconds)))


def _trainer(setup: CaseSetup, prepared: PreparedEntry) -> Trainer:
    optimizer = build_optimizer(prepared.entry.optimizer, setup.begin(prepared))
    device = setup.scale.device
    scaled = prepared.entry.precision == "amp-fp16" and device.startswith("cuda")
    return Trainer(prepared, optimizer, device, torch.amp.GradScaler("cuda") if scaled else None)


def bounds_of(setup: CaseSetup, prepared: PreparedEntry) -> Bounds:
    """Those of the coarsest dtype that the contestant computes in."""
    precision = prepared.entry.precision
    wide = setup.computes_in(prepared.entry) == torch.float32 and precision != "tf32"
    return WIDE if wide else NARROW


def _told(apart: Deviation, bounds: Bounds) -> str:
    return (
        f"loss {apart.loss:.1e} and gradients {apart.norm:.1e} from the reference, bounds {bounds.loss:g} and "
        f"{bounds.norm:g}; furthest by {apart.worst:.1e}: {apart.where}"
    )


def _saved(trainer: Trainer, setup: CaseSetup) -> int | None:
    """Of tiny models: one forward."""
    if not setup.scale.tiny:
        return None
    prepared = trainer.prepared
    several = prepared.entry.accumulate
    with autocast(prepared.entry.precision, setup.scale.device):
        return saved_bytes(
            lambda: prepared.model(**next(prepared.batch.parts(several))), prepared.model
        )


def _block_seconds(setup: CaseSetup, prepared: PreparedEntry) -> tuple[float, ...]:
    """Of the case's block, forward and backward, on drawn states of as many tokens as the batch has."""
    if not setup.case.block or prepared.entry.compiled:
        return ()
    block, config = (
        prepared.model.get_submodule(setup.case.block),
        prepared.model.config.get_text_config(),
    )
    shape, kind = (
        (*prepared.batch.inputs["input_ids"].shape, config.hidden_size),
        prepared.model.dtype,
    )
    states = torch.randn(shape, device=setup.scale.device, dtype=kind, requires_grad=True)

    def run() -> None:
        out = block(states)
        (out[0] if isinstance(out, tuple) else out).sum().backward()

    run()
    return tuple(time_runs(run, 1 if setup.scale.tiny else 10, setup.scale.device))


@dataclass(frozen=True, slots=True)
class _InUse:
    """Bytes of the device that are taken, as its driver counts, and those of tensors among them."""

    driver: int
    allocated: int


def _in_use() -> _InUse:
    """What is taken when nothing is cached.

    A CUDA graph's replay allocates nothing: its tensors lie in a pool that was filled when it was captured, which the
    statistics of the allocator leave out and the driver does not.
    """
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return _InUse(total - free, int(torch.cuda.memory_allocated()))


def _forget_peak(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()


def _peak(device: str) -> int | None:
    return int(torch.cuda.max_memory_allocated()) if device.startswith("cuda") else None
