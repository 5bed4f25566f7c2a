"""Runs a training from its recipe to its result.

transformers' Trainer does the training itself.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from patchgen.training.device_memory import peak_memory
from patchgen.training.loop.checkpoints import (
    CheckpointSealer,
    checkpoint_step,
    discard_unfinished,
    find_checkpoint,
)
from patchgen.training.loop.engine import choose_device
from patchgen.training.loop.failures import guard_run
from patchgen.training.loop.fit import check_fit, format_gib, largest_batch
from patchgen.training.loop.folder import RESULT, RunFolder
from patchgen.training.loop.job import Job, make_meter, prepare_job, record_engine, record_run
from patchgen.training.loop.meter import Meter, Watch, draw_loss
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.rows import Row
from patchgen.training.loop.setup import build_seeded_model, compile_if_asked
from patchgen.training.parallel.engine import Engine, parse_engine
from patchgen.training.parallel.engine_check import check_engine
from patchgen.training.parallel.process_group import first_process_first, join, wait
from patchgen.training.parallel.zero import check_checkpoint, engine_at_end, gather_weights


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The result of a run."""

    folder: Path
    figures: Mapping[str, float]
    resumed_from: int = 0  # step


def train(
    recipe: Recipe,
    folder: RunFolder,
    watch: Watch,
    *,
    resume: bool = False,
    at: int | None = None,
    engine: Engine | None = None,
) -> TrainingResult:
    """Train as the recipe says; with `resume`, from the last checkpoint or that of step `at`.

    Raises PatchgenError for what is not possible (PG81x), for a full disk or memory (PG910, PG816),
    and for a loss that is not finite (PG820).  Checkpoints that are complete stay.
    """
    engine = engine or parse_engine(recipe.engine, os.environ)
    join(engine, choose_device(recipe.device))
    with guard_run(folder, engine, fresh=not resume):
        if resume:
            folder.check_kind(search=False)
        job = prepare_job(recipe, folder, watch, engine)
        recipe = job.recipe
        batch = _batch(job)
        with first_process_first(engine):
            start = _start(job, at) if resume else None
        if start is not None:
            check_checkpoint(start, engine)
            job = replace(job, engine=engine_at_end(engine)) if _is_the_end(start) else job
        model = job.model()
        meter = make_meter(job, model)
        scale_loss = job.ignores_label_count(model)
        model = job.distribute(model)
        callbacks = [CheckpointSealer(engine), meter]
        trainer = job.trainer(
            job.arguments(batch),
            model=compile_if_asked(recipe, model),
            callbacks=callbacks,
            scale_loss=scale_loss,
        )
        trainer.add_callback(EngineCheck(trainer, job))
        record_run(job, model, batch, meter)
        if start is not None and _is_the_end(start):
            _restore(trainer, start)
        else:
            trainer.train(resume_from_checkpoint=None if start is None else str(start))
        return _ended(job, trainer, meter, 0 if start is None else checkpoint_step(start))


class EngineCheck(TrainerCallback):
    """Checks before the first step which engine runs, and records it."""

    def __init__(self, trainer: Any, job: Job) -> None:
        self.trainer, self.job = trainer, job

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Called by Trainer when the model is wrapped and distributed."""
        report = check_engine(self.trainer.model, self.trainer.model_wrapped, self.job.engine)
        record_engine(self.job, report)


def _batch(job: Job) -> int:
    """Return the rows of a step: as asked, as found by an earlier attempt, or the most that fit."""
    recipe, rows = job.recipe, job.data.train

    def step(longest: Sequence[Row], size: int) -> None:
        _steps(job, longest, size)

    if recipe.asked_batch is not None:
        if not job.engine.is_distributed:
            check_fit(rows, recipe.asked_batch, step, job.device, recipe.memory)
        return recipe.asked_batch
    if before := job.folder.found().get("batch_size"):
        return int(before)
    found, tried = largest_batch(rows, step, job.device, recipe.memory)
    peaks = ", ".join(
        f"{one.rows}: {format_gib(one.peak) if one.peak is not None else 'too much'}"
        for one in tried
    )
    job.watch.note(f"batch of {found} rows; peak memory by rows: {peaks}")
    return found


def _steps(job: Job, rows: Sequence[Row], size: int) -> None:
    """Train a temporary model for two steps, as the recipe says but not compiled.

    The optimizer's states exist from the second step on.  With accumulation, the gradients of the
    first batch exist while the second is computed.
    """
    batches = min(2, job.recipe.grad_accum)
    plain = replace(job.recipe, compile="none", loader="", grad_accum=batches)
    nothing = {
        "max_steps": 2,
        "save_strategy": "no",
        "eval_strategy": "no",
        "logging_strategy": "no",
    }
    arguments = replace(job, recipe=plain).arguments(size, **nothing)
    model = build_seeded_model(plain, job.source, job.data)
    job.trainer(arguments, model=model, train_dataset=list(rows) * batches).train()


def _start(job: Job, at: int | None) -> Path | None:
    for unfinished in discard_unfinished(job.folder.path):
        job.watch.note(f"{unfinished.name} was being written when the run ended, and is removed")
    start = find_checkpoint(job.folder.path, at)
    if start is None:
        job.watch.note("the run has no checkpoint yet and starts again")
    else:
        job.watch.note(f"goes on after step {checkpoint_step(start)}")
    return start


def _is_the_end(start: Path) -> bool:
    """Return whether no step is left; Trainer would make one more."""
    state = TrainerState.load_from_json(str(start / TRAINER_STATE_NAME))
    return bool(state.global_step >= state.max_steps)


def _restore(trainer: Any, start: Path) -> None:
    """Set the trainer to the state of a checkpoint."""
    trainer._load_from_checkpoint(str(start))
    trainer.state = TrainerState.load_from_json(str(start / TRAINER_STATE_NAME))


def _ended(job: Job, trainer: Any, meter: Meter, resumed_from: int) -> TrainingResult:
    history = trainer.state.log_history
    evaluated: dict[str, Any] = next(
        (entry for entry in reversed(history) if "eval_loss" in entry), {}
    )
    last = evaluated if evaluated.get("step") == trainer.state.global_step else trainer.evaluate()
    logged = [entry["loss"] for entry in history if "loss" in entry]
    figures = {
        "steps": trainer.state.global_step,
        "epochs": round(trainer.state.epoch or 0.0, 3),
        "loss": logged[-1] if logged else math.nan,
        **{name: last[name] for name in ("eval_loss", "eval_accuracy") if name in last},
        "tokens": meter.tokens_of(trainer.state),
        "tokens_a_second": round(meter.tokens_a_second, 1),
        **meter.utilisation(meter.tokens_a_second),
        "peak_bytes": peak_memory(meter.device),
    }
    weights = gather_weights(trainer, job.engine)
    if (
        job.engine.is_first or job.engine.shards_weights
    ):  # `save_pretrained` gathers DTensors by itself
        trainer.model.save_pretrained(
            job.folder.model, is_main_process=job.engine.is_first, state_dict=weights
        )
    if job.engine.is_first:
        job.data.tokenizer.save_pretrained(job.folder.model)
    draw_loss(job.folder)
    job.folder.write(RESULT, figures)
    wait(job.engine)
    return TrainingResult(job.folder.path, figures, resumed_from)
