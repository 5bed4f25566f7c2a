"""Which settings are best: Trainer's own search with Optuna, for the loss, the throughput, or both.

In: a recipe, whose settings are the middle of what is tried.  Out: a folder with every trial and, of two objectives,
the Pareto front: the trials that no other beats in both.  Trials are written down as they end; a search that was
killed is gone on with.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, Trainer

from patchgen.draw.lines import Line, lines
from patchgen.errors import Location, PatchgenError
from patchgen.train.arguments import arguments_of
from patchgen.train.folder import RunFolder
from patchgen.train.meter import Meter, Watch
from patchgen.train.recipe import Recipe
from patchgen.train.run import (
    accuracy,
    built,
    compiled,
    guarded,
    insist_on_all,
    material_of,
    measured,
    write_down,
)
from patchgen.train.switches import Searching, refuse, searching

LOG, TABLE, PICTURE = "search.log", "search.json", "search.svg"
NAME = "patchgen"
AROUND = 10.0  # learning rates from a tenth of the recipe's to ten times it
DIRECTIONS = {"loss": "minimize", "throughput": "maximize"}


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial that ended: its settings and what they gave, in the order of the objectives."""

    number: int
    settings: tuple[tuple[str, float], ...]
    values: tuple[float, ...]
    front: bool  # no other trial beats it in every objective


def search(recipe: Recipe, text: str, folder: RunFolder, watch: Watch, *, resume: bool = False) -> tuple[Tried, ...]:
    """Run the trials that are still to be run; all that ended, the best first.

    Raises PatchgenError as `train` does.
    """
    with guarded(folder, fresh=not resume):
        wanted = searching(text)
        device, source = insist_on_all(recipe, folder, search=True)
        if recipe.asked_batch is None:
            refuse("batch-size", recipe.batch_size, "a search tries batches around a number of rows")
        import optuna  # it is known to be there by now

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        material = material_of(recipe, source, folder)
        storage = _storage(folder.path)
        before = _ended(storage, wanted)
        missing = wanted.trials - len(before)
        if before:
            watch.note(f"{len(before)} trials ended before")
        steps = {"max_steps": wanted.steps} if wanted.steps else {}
        quiet = {"save_strategy": "no", "eval_strategy": "no", **steps}
        arguments = arguments_of(recipe, folder.path, device, recipe.asked_batch, **quiet)
        model = built(recipe, source, material, watch.note)
        meter = measured(recipe, material, model, folder, device, watch)
        write_down(folder, recipe, source, material, model, device, recipe.asked_batch, meter)
        trainer = Trainer(
            model_init=lambda trial=None: compiled(recipe, built(recipe, source, material)),
            args=arguments,
            data_collator=material.collate,
            train_dataset=material.train,
            eval_dataset=material.kept,
            processing_class=material.tokenizer,
            compute_metrics=accuracy if recipe.task == "classification" else None,
            callbacks=[meter],
        )
        trainer.remove_callback(PrinterCallback)
        if missing > 0:
            _try(trainer, recipe, wanted, missing, meter, storage)
        found = _ended(storage, wanted)
        _write(folder, wanted, found)
        return found


def _storage(folder: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(folder / LOG)))


def _try(trainer: Any, recipe: Recipe, wanted: Searching, trials: int, meter: Meter, storage: Any) -> None:
    import optuna

    directions = [DIRECTIONS[objective] for objective in wanted.objectives]
    # A sampler that begins anew with the same seed would begin with the same settings.
    done = len(_ended(storage, wanted))
    trainer.hyperparameter_search(
        hp_space=_space(recipe),
        compute_objective=_objective(wanted, meter),
        n_trials=trials,
        direction=directions if len(directions) > 1 else directions[0],
        backend="optuna",
        hp_name=lambda trial: str(trial.number),
        study_name=NAME,
        storage=storage,
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=recipe.seed + done),
    )


def _space(recipe: Recipe) -> Callable[[Any], dict[str, Any]]:
    """Learning rate, weight decay, warm-up and rows of a batch: under Trainer's names of them."""
    middle = int(recipe.batch_size)
    batches = sorted({max(1, middle // 2), middle, middle * 2})

    def drawn(trial: Any) -> dict[str, Any]:
        low, high = recipe.learning_rate / AROUND, recipe.learning_rate * AROUND
        return {
            "learning_rate": trial.suggest_float("learning_rate", low, high, log=True),
            "weight_decay": trial.suggest_float("weight_decay", 0.0, 0.1),
            "warmup_steps": trial.suggest_float("warmup_steps", 0.0, 0.2),
            "per_device_train_batch_size": trial.suggest_categorical("per_device_train_batch_size", batches),
        }

    return drawn


def _objective(wanted: Searching, meter: Meter) -> Callable[[Mapping[str, float]], Any]:
    def values(metrics: Mapping[str, float]) -> Any:
        known = {"loss": metrics["eval_loss"], "throughput": meter.tokens_a_second}
        found = [known[objective] for objective in wanted.objectives]
        return found if len(found) > 1 else found[0]

    return values


def _ended(storage: Any, wanted: Searching) -> tuple[Tried, ...]:
    """The trials that came to their end, the best first; of two objectives, those on the front first."""
    import optuna

    names = [summary.study_name for summary in optuna.get_all_study_summaries(storage)]
    if NAME not in names:
        return ()
    study = optuna.load_study(study_name=NAME, storage=storage)
    if [direction.name.lower() for direction in study.directions] != [DIRECTIONS[o] for o in wanted.objectives]:
        raise PatchgenError("PG817", Location(LOG), "was begun with other objectives", "give --output another folder")
    whole = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
    best = {trial.number for trial in study.best_trials} if whole else set()
    found = [
        Tried(trial.number, tuple(trial.params.items()), tuple(trial.values), trial.number in best) for trial in whole
    ]
    sign = -1 if wanted.objectives[0] == "throughput" else 1
    return tuple(sorted(found, key=lambda one: (not one.front, sign * one.values[0])))


def _write(folder: RunFolder, wanted: Searching, found: Sequence[Tried]) -> None:
    told = [{**dataclasses.asdict(one), "settings": dict(one.settings)} for one in found]
    folder.write(TABLE, json.dumps({"objectives": wanted.objectives, "trials": told}, indent=1) + "\n")
    if len(wanted.objectives) == 2 and found:
        folder.write(PICTURE, _pareto(wanted, found))


def _pareto(wanted: Searching, found: Sequence[Tried]) -> str:
    """Every trial as a dash, and the front as a line."""
    across, up = wanted.objectives
    width = (max(one.values[0] for one in found) - min(one.values[0] for one in found)) / 80 or 0.01
    dashes: list[tuple[float, float]] = []
    for one in found:
        x, y = one.values
        dashes += [(x - width, y), (x + width, y), (x, float("nan"))]
    front = sorted(one.values for one in found if one.front)
    rows = [Line("trials", tuple(dashes)), Line("Pareto front", tuple((x, y) for x, y in front))]
    return lines("search", rows, across=_axis(across), up=_axis(up))


def _axis(objective: str) -> str:
    return {"loss": "eval loss", "throughput": "tokens a second"}[objective]
