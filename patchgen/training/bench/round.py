"""One round of an entry: weights are restored, steps warm up, and steps are timed.

The first round also checks the numbers, and records which kernels ran.
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
    compare_with_reference,
    gradient_norms,
)
from patchgen.training.bench.result import Result
from patchgen.training.bench.setup import CaseSetup, PreparedEntry
from patchgen.training.bench.step import Trainer, autocast, products
from patchgen.training.optimizers import build_optimizer
from patchgen.training.rate.timing import time_runs
from patchgen.verify.observe.evidence import count_saved_bytes


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one round: to warm up, and to be timed."""

    warm: int
    timed: int


# One step of each shows that it runs.
TINY_ROUNDS = (Steps(1, 1),)


def first_round(
    setup: CaseSetup, prepared: PreparedEntry, reference: Reference, steps: Steps
) -> Result:
    """Return the result of an entry that has not run before."""
    trainer = _trainer(setup, prepared)
    replays = prepared.entry.compiled == "graphs" and setup.scale.device.startswith("cuda")
    before = _in_use() if replays else None
    with prepared.on(), products(prepared.entry.precision):
        loss, deviation = _first_step(trainer, setup, reference)
        saved = _saved(trainer, setup)
        setup.forget_gradients(prepared)
        losses, seconds, peak = _steps(trainer, steps, setup.scale.device)
        if before is not None and peak is not None:
            peak = max(peak, before.allocated + _in_use().driver - before.driver)
        kernels = attention_kernels(trainer.backward, setup.scale.device)
        block = _block_seconds(setup, prepared)
    setup.forget_gradients(prepared)
    return replace(
        _judged(deviation, choose_bounds(setup, prepared)),
        rounds=() if setup.scale.tiny else (tuple(seconds),),
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
    """Return the loss at the initial weights, and its deviation from the reference."""
    prepared = trainer.prepared
    prepared.model.train(not setup.case.dropout)
    with nullcontext() if prepared.entry.compiled else record_masks(prepared.masks):
        loss = float(trainer.backward())
    prepared.model.train()
    scale = trainer.scaler.get_scale() if trainer.scaler else 1.0
    return loss, compare_with_reference(reference, loss, gradient_norms(setup, scale), setup)


def _steps(
    trainer: Trainer, steps: Steps, device: str
) -> tuple[list[float], list[float], int | None]:
    """Return losses and seconds of the timed steps, and their peak of allocated memory."""
    for _ in range(steps.warm):
        trainer.step()
    _forget_peak(device)
    losses: list[Tensor] = []
    seconds = time_runs(lambda: losses.append(trainer.step()), steps.timed, device)
    return [float(loss) for loss in losses], seconds, _peak(device)


def _judged(deviation: Deviation, bounds: Bounds) -> Result:
    right = deviation.within(bounds)
    note = "" if right else _describe_deviation(deviation, bounds)
    return Result(
        "ok" if right else "wrong",
        note,
        deviation=(deviation.loss, deviation.norm, deviation.worst),
    )


def next_round(setup: CaseSetup, prepared: PreparedEntry, steps: Steps, result: Result) -> Result:
    """Return `result` with the times of one more round."""
    trainer = _trainer(setup, prepared)
    with prepared.on(), products(prepared.entry.precision):
        for _ in range(steps.warm):
            trainer.step()
        seconds = time_runs(trainer.step, steps.timed, setup.scale.device)
    setup.forget_gradients(prepared)
    return replace(result, rounds=(*result.rounds, tuple(seconds)))


def _trainer(setup: CaseSetup, prepared: PreparedEntry) -> Trainer:
    optimizer = build_optimizer(prepared.entry.optimizer, setup.restore_weights(prepared))
    device = setup.scale.device
    scaled = prepared.entry.precision == "amp-fp16" and device.startswith("cuda")
    return Trainer(prepared, optimizer, device, torch.amp.GradScaler("cuda") if scaled else None)


def choose_bounds(setup: CaseSetup, prepared: PreparedEntry) -> Bounds:
    """Return the bounds of the coarsest dtype that the entry computes in."""
    precision = prepared.entry.precision
    wide = setup.computes_in(prepared.entry) == torch.float32 and precision != "tf32"
    return WIDE if wide else NARROW


def _describe_deviation(deviation: Deviation, bounds: Bounds) -> str:
    return (
        f"loss {deviation.loss:.1e} and gradients {deviation.norm:.1e} from the reference, "
        f"bounds {bounds.loss:g} and {bounds.norm:g}; "
        f"furthest by {deviation.worst:.1e}: {deviation.where}"
    )


def _saved(trainer: Trainer, setup: CaseSetup) -> int | None:
    """Return the saved bytes of one forward pass of a tiny model."""
    if not setup.scale.tiny:
        return None
    prepared = trainer.prepared
    several = prepared.entry.accumulate
    with autocast(prepared.entry.precision, setup.scale.device):
        return count_saved_bytes(
            lambda: prepared.model(**next(prepared.batch.parts(several))), prepared.model
        )


def _block_seconds(setup: CaseSetup, prepared: PreparedEntry) -> tuple[float, ...]:
    """Time the case's block, forward and backward, on random states."""
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
    """Bytes in use on the device, by its driver, and bytes of tensors among them."""

    driver: int
    allocated: int


def _in_use() -> _InUse:
    """Return what is in use with an empty cache.

    Replaying a CUDA graph allocates nothing: its tensors are in a pool that was filled by the
    capture. The allocator's statistics leave the pool out, and the driver counts it.
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
