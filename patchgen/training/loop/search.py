"""Searches for the best settings with Trainer and Optuna: for the loss, the throughput, or both.

The recipe's settings are the middle of the search space.  Each trial is logged when it ends, so a
search that was killed can be resumed.  With two objectives the result marks the Pareto front: the
trials that no other trial beats in both.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.charts.lines import Line, lines
from patchgen.training.loop.failures import guard_run
from patchgen.training.loop.folder import TRIALS, RunFolder
from patchgen.training.loop.job import Job, make_meter, prepare_job, record_run
from patchgen.training.loop.meter import Meter, Watch
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.setup import build_seeded_model, compile_if_asked
from patchgen.training.loop.switches import Searching, refuse, searching
from patchgen.training.parallel.engine import parse_engine

TABLE, PICTURE = "search.json", "search.svg"
NAME = "patchgen"
AROUND = 10.0  # learning rates from a tenth of the recipe's to ten times that
DIRECTIONS = {"loss": "minimize", "throughput": "maximize"}


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial that ended: its settings and its values, in the order of the objectives."""

    number: int
    settings: tuple[tuple[str, float], ...]
    values: tuple[float, ...]
    front: bool  # no other trial beats it in every objective


def search(
    recipe: Recipe, text: str, folder: RunFolder, watch: Watch, *, resume: bool = False
) -> tuple[Trial, ...]:
    """Run the trials that are missing, and return all that ended, the best first.

    Raises PatchgenError as `train` does.
    """
    engine = parse_engine(recipe.engine, os.environ)
    with guard_run(folder, engine, fresh=not resume):
        wanted = searching(text)
        if resume:
            folder.check_kind(search=True)
        if recipe.asked_batch is None:
            refuse(
                "batch-size", recipe.batch_size, "a search tries batches around a number of rows"
            )
        job = prepare_job(recipe, folder, watch, engine, search=True)
        storage = _storage(folder.path)
        before = _ended(storage, wanted)
        if before:
            watch.note(f"{len(before)} trials ended before")
        if len(before) < wanted.trials:
            _try(job, wanted, len(before), storage)
        found = _ended(storage, wanted)
        _write(folder, wanted, found)
        return found


def _storage(folder: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(folder / TRIALS)))


def _try(job: Job, wanted: Searching, done: int, storage: Any) -> None:
    """Run the missing trials."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    recipe, batch = job.recipe, int(job.recipe.batch_size)
    model = job.model()
    meter = make_meter(job, model)
    record_run(job, model, batch, meter)
    changes: dict[str, Any] = {"save_strategy": "no", "eval_strategy": "no"}
    changes |= {"max_steps": wanted.steps} if wanted.steps else {}
    trainer = job.trainer(
        job.arguments(batch, **changes),
        model_init=lambda trial=None: compile_if_asked(
            recipe, build_seeded_model(recipe, job.source, job.data)
        ),
        callbacks=[meter],
        scale_loss=job.ignores_label_count(model),
    )
    directions = [DIRECTIONS[objective] for objective in wanted.objectives]
    trainer.hyperparameter_search(
        hp_space=_space(recipe),
        compute_objective=_objective(wanted, meter),
        n_trials=wanted.trials - done,
        direction=directions if len(directions) > 1 else directions[0],
        backend="optuna",
        hp_name=lambda trial: str(trial.number),
        study_name=NAME,
        storage=storage,
        load_if_exists=True,
        # With the same seed, a resumed search would repeat its first settings.
        sampler=optuna.samplers.TPESampler(seed=recipe.seed + done),
    )


def _space(recipe: Recipe) -> Callable[[Any], dict[str, Any]]:
    """Return the search space, under Trainer's names of the settings."""
    middle = int(recipe.batch_size)
    batches = sorted({max(1, middle // 2), middle, middle * 2})

    def drawn(trial: Any) -> dict[str, Any]:
        low, high = recipe.learning_rate / AROUND, recipe.learning_rate * AROUND
        return {
            "learning_rate": trial.suggest_float("learning_rate", low, high, log=True),
            "weight_decay": trial.suggest_float("weight_decay", 0.0, 0.1),
            "warmup_steps": trial.suggest_float("warmup_steps", 0.0, 0.2),
            "per_device_train_batch_size": trial.suggest_categorical(
                "per_device_train_batch_size", batches
            ),
        }

    return drawn


def _objective(wanted: Searching, meter: Meter) -> Callable[[Mapping[str, float]], Any]:
    def values(metrics: Mapping[str, float]) -> Any:
        known = {"loss": metrics["eval_loss"], "throughput": meter.tokens_a_second}
        found = [known[objective] for objective in wanted.objectives]
        return found if len(found) > 1 else found[0]

    return values


def _ended(storage: Any, wanted: Searching) -> tuple[Trial, ...]:
    """Return the trials that ended, the best first; with two objectives, the front first."""
    import optuna

    names = [summary.study_name for summary in optuna.get_all_study_summaries(storage)]
    if NAME not in names:
        return ()
    study = optuna.load_study(study_name=NAME, storage=storage)
    if [direction.name.lower() for direction in study.directions] != [
        DIRECTIONS[o] for o in wanted.objectives
    ]:
        hint = "give --output another folder"
        raise PatchgenError("PG817", Location(TRIALS), "was begun with other objectives", hint)
    whole = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
    best = {trial.number for trial in study.best_trials} if whole else set()
    found = [
        Trial(trial.number, tuple(trial.params.items()), tuple(trial.values), trial.number in best)
        for trial in whole
    ]
    sign = -1 if wanted.objectives[0] == "throughput" else 1
    return tuple(sorted(found, key=lambda one: (not one.front, sign * one.values[0])))


def _write(folder: RunFolder, wanted: Searching, found: Sequence[Trial]) -> None:
    trials = [{**dataclasses.asdict(one), "settings": dict(one.settings)} for one in found]
    folder.write(
        TABLE, json.dumps({"objectives": wanted.objectives, "trials": trials}, indent=1) + "\n"
    )
    if len(wanted.objectives) == 2 and found:
        folder.write(PICTURE, _pareto(wanted, found))


def _pareto(wanted: Searching, found: Sequence[Trial]) -> str:
    """Draw every trial as a dot, and the front as a line."""
    across, up = wanted.objectives
    front = sorted(one.values for one in found if one.front)
    trials = tuple((x, y) for x, y in (one.values for one in found))
    rows = [
        Line("trials", trials, dots=True),
        Line("Pareto front: no other trial is better in both", tuple((x, y) for x, y in front)),
    ]
    return lines("Trials of the search", rows, across=_axis(across), up=_axis(up))


def _axis(objective: str) -> str:
    titles = {
        "loss": "evaluation loss (nats; lower is better)",
        "throughput": "throughput (tokens per second; higher is better)",
    }
    return titles[objective]
