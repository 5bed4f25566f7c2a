"""A contestant's turn: the weights are set back, some steps are run, the last of them timed.

The first turn also finds whether its numbers are right, and what really ran.
"""

from __future__ import annotations

import statistics
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from patchgen.training.bench.compiling import noting_masks
from patchgen.training.bench.kernels import attention_kernels
from patchgen.training.bench.optimizers import optimizer_of
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
from patchgen.training.bench.setup import Entrant, Stage
from patchgen.training.bench.step import Trainer, autocast, products
from patchgen.training.rate.timing import timed


@dataclass(frozen=True, slots=True)
class Steps:
    """Of one turn: those that warm up, and those that are timed."""

    warm: int
    timed: int


# One step of each is enough to see that it runs.
TINY_TURNS = (Steps(1, 1),)


def first_turn(stage: Stage, entrant: Entrant, reference: Reference, steps: Steps) -> Result:
    """The result of a contestant that has not run before."""
    trainer = _trainer(stage, entrant)
    replays = entrant.contestant.compiled == "graphs" and stage.scale.device.startswith("cuda")
    before = _in_use() if replays else None
    with entrant.on(), products(entrant.contestant.precision):
        loss, apart = _first_step(trainer, stage, reference)
        saved = _saved(trainer, stage)
        stage.forget_gradients(entrant)
        losses, seconds, peak = _steps(trainer, steps, stage.scale.device)
        if before is not None and peak is not None:
            peak = max(peak, before.allocated + _in_use().driver - before.driver)
        kernels = attention_kernels(trainer.backward, stage.scale.device)
        block = _block_seconds(stage, entrant)
    stage.forget_gradients(entrant)
    return replace(
        _judged(apart, bounds_of(stage, entrant)),
        turns=() if stage.scale.tiny else (tuple(seconds),),
        tokens=round(statistics.mean(batch.tokens for batch in trainer.batches)),
        samples=round(statistics.mean(len(batch.texts) for batch in trainer.batches)),
        peak=peak,
        driver=before is not None,
        saved=saved,
        losses=(loss, losses[-1]),
        masks=tuple(sorted(set(entrant.masks))),
        kernels=kernels,
        block=() if stage.scale.tiny else block,
    )


def _first_step(trainer: Trainer, stage: Stage, reference: Reference) -> tuple[float, Deviation]:
    """The loss at the weights where all begin, and how far it and its gradients are from the reference's."""
    entrant = trainer.entrant
    entrant.model.train(not stage.case.dropout)
    with nullcontext() if entrant.contestant.compiled else noting_masks(entrant.masks):
        loss = float(trainer.backward())
    entrant.model.train()
    for whole in entrant.wholes:
        whole.show_gradient()
    scale = trainer.scaler.get_scale() if trainer.scaler else 1.0
    return loss, deviation(reference, loss, norms_of(stage, scale), stage)


def _steps(
    trainer: Trainer, steps: Steps, device: str
) -> tuple[list[float], list[float], int | None]:
    """Losses and seconds of the timed steps, and the peak of what was allocated in them."""
    for _ in range(steps.warm):
        trainer.step()
    _forget_peak(device)
    losses: list[Tensor] = []
    seconds = timed(lambda: losses.append(trainer.step()), steps.timed, device)
    return [float(loss) for loss in losses], seconds, _peak(device)


def _judged(apart: Deviation, bounds: Bounds) -> Result:
    right = apart.within(bounds)
    note = "" if right else _told(apart, bounds)
    return Result("ok" if right else "wrong", note, apart=(apart.loss, apart.norm, apart.worst))


def further_turn(stage: Stage, entrant: Entrant, steps: Steps, result: Result) -> Result:
    """`result` with the times of one more turn."""
    trainer = _trainer(stage, entrant)
    with entrant.on(), products(entrant.contestant.precision):
        for _ in range(steps.warm):
            trainer.step()
        seconds = timed(trainer.step, steps.timed, stage.scale.device)
    stage.forget_gradients(entrant)
    return replace(result, turns=(*result.turns, tuple(seconds)))


def _trainer(stage: Stage, entrant: Entrant) -> Trainer:
    optimizer = optimizer_of(entrant.contestant.optimizer, stage.begin(entrant))
    device = stage.scale.device
    scaled = entrant.contestant.precision == "amp-fp16" and device.startswith("cuda")
    return Trainer(entrant, optimizer, device, torch.amp.GradScaler("cuda") if scaled else None)


def bounds_of(stage: Stage, entrant: Entrant) -> Bounds:
    """Those of the coarsest dtype that the contestant computes in."""
    precision = entrant.contestant.precision
    wide = stage.computes_in(entrant.contestant) == torch.float32 and precision != "tf32"
    return WIDE if wide else NARROW


def _told(apart: Deviation, bounds: Bounds) -> str:
    return (
        f"loss {apart.loss:.1e} and gradients {apart.norm:.1e} from the reference, bounds {bounds.loss:g} and "
        f"{bounds.norm:g}; furthest by {apart.worst:.1e}: {apart.where}"
    )


def _saved(trainer: Trainer, stage: Stage) -> int | None:
    """Of tiny models: one forward."""
    if not stage.scale.tiny:
        return None
    entrant = trainer.entrant
    several = entrant.contestant.accumulate
    with autocast(entrant.contestant.precision, stage.scale.device):
        return saved_bytes(
            lambda: entrant.model(**next(entrant.batch.parts(several))), entrant.model
        )


def _block_seconds(stage: Stage, entrant: Entrant) -> tuple[float, ...]:
    """Of the case's block, forward and backward, on drawn states of as many tokens as the batch has."""
    if not stage.case.block or entrant.contestant.compiled:
        return ()
    block, config = (
        entrant.model.get_submodule(stage.case.block),
        entrant.model.config.get_text_config(),
    )
    shape, kind = (
        (*entrant.batch.inputs["input_ids"].shape, config.hidden_size),
        entrant.model.dtype,
    )
    states = torch.randn(shape, device=stage.scale.device, dtype=kind, requires_grad=True)

    def run() -> None:
        out = block(states)
        (out[0] if isinstance(out, tuple) else out).sum().backward()

    run()
    return tuple(timed(run, 1 if stage.scale.tiny else 10, stage.scale.device))


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
