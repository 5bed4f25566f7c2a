"""Run a training or a search from its arguments to its result; transformers' Trainer trains.

    train       checks the arguments, joins the other processes, and locks the folder of the run
                finds the checkpoint to go on from
                prepares the data, the model's weights and Trainer's arguments
                builds and distributes the model, trains it, and writes the figures
    search      does the same up to the data, and then one training for each trial

`options` are patchgen's own arguments of a run, `given` those of Trainer that the user gave.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gc
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import torch
from accelerate import ParallelismConfig
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from patchgen import disk
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.callback import VariantCallback, describe_environment
from patchgen.training.device_memory import is_of_memory
from patchgen.training.loop.checkpoints import (
    checkpoint_step,
    complete_checkpoints,
    discard_unfinished,
    find_checkpoint,
    list_checkpoints,
)
from patchgen.training.loop.models import Source, build, find_source, note
from patchgen.training.loop.options import (
    ARGUMENTS,
    Options,
    make_arguments,
    needs,
    output_of,
    refuse,
)
from patchgen.training.loop.texts import TrainingData, prepare_data
from patchgen.training.loop.trainer import EngineTrainer
from patchgen.training.optimizers import MuonFactory
from patchgen.training.parallel.distribute import distribute
from patchgen.training.parallel.engine import Engine, parse_engine
from patchgen.training.parallel.engine_check import check_layout
from patchgen.training.parallel.process_group import (
    PATIENCE,
    first_process_first,
    gather,
    ignore_termination,
    is_peer_failure,
    join,
    wait,
)
from patchgen.training.parallel.zero import (
    built_whole,
    check_deepspeed,
    make_zero_arguments,
)

RUN = "run.json"  # what each attempt ran on, and which rows
SEARCH = "search.json"
TRIALS = "search.log"
LOCK = ".lock"
AROUND = 10.0  # a search tries learning rates up to so many times more or less
DIRECTIONS = {"loss": "minimize", "throughput": "maximize"}
# Errors of a full or failing disk, or of a limit on the size of files.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
DISK_FULL = (
    "No space left|File too large|Disk quota|os error 2[78]|PytorchStreamWriter|inline_container"
)


@dataclass(frozen=True, slots=True)
class Job:
    """One run, and all that was prepared for it."""

    options: Options
    arguments: Any
    engine: Engine
    source: Source
    data: TrainingData

    @property
    def folder(self) -> Path:
        """Return the folder of the run."""
        return Path(self.arguments.output_dir)

    def build(self) -> Any:
        """Return a model with its initial weights."""
        args = self.arguments
        autocast = "bfloat16" if args.bf16 else "float16" if args.fp16 else ""
        with built_whole(args):
            return build(self.source, self.options, self.data, args.seed, autocast)

    def trainer(self, **more: Any) -> EngineTrainer:
        """Return a Trainer with the rows of the job."""
        args = self.arguments
        muon = {"lr": args.learning_rate, "weight_decay": args.weight_decay}
        return EngineTrainer(
            engine=self.engine,
            args=args,
            data_collator=self.data.collate,
            processing_class=self.data.tokenizer,
            compute_metrics=accuracy if self.options.task == "classification" else None,
            optimizer_cls_and_kwargs=((MuonFactory, muon) if self.options.muon else None),
            train_dataset=self.data.train,
            eval_dataset=self.data.kept or None,
            **more,
        )


def accuracy(predicted: Any) -> dict[str, float]:
    """Return the share of texts with the right label."""
    logits = predicted.predictions
    logits = logits[0] if isinstance(logits, tuple) else logits
    return {"accuracy": float(numpy.mean(logits.argmax(-1) == predicted.label_ids))}


def train(
    options: Options, given: Mapping[str, Any], engine: Engine | None = None
) -> dict[str, Any]:
    """Train as the arguments say, and return the final figures.

    Raises PatchgenError for what is not possible (PG81x, PG83x), for a full disk or memory (PG910,
    PG816), and for a loss that is not finite (PG820).  Whole checkpoints stay.
    """
    engine = engine or parse_engine(options.engine, os.environ)
    check_engine_arguments(options, given, engine)
    join(engine, "cuda" if _on_cuda(given) else "cpu", given.get("ddp_timeout", PATIENCE))
    folder = output_of(options, given)
    resumed = given.get("resume_from_checkpoint")
    with guard(folder, engine, claims=not resumed):
        start = None
        if resumed:
            start = first_process_first(engine, lambda: _find_start(folder, resumed, engine))
        job = prepare(options, given, engine)
        if options.search:
            return search(job, given)
        model = job.build()
        model = distribute(model, engine, job.arguments.device.type)
        check_layout(model, engine)
        trainer = job.trainer(model=model)
        callback = VariantCallback(trainer, engine)
        trainer.add_callback(callback)
        write_arguments(options, given, engine)
        _record_attempt(job)
        if start is not None and _has_ended(trainer, start):
            if engine.zero_stage in (1, 2):  # only stage 3 can evaluate without an optimizer
                trainer.engine = callback.engine = replace(engine, name="ddp", offload="")
            trainer._load_from_checkpoint(str(start))
            trainer.state = TrainerState.load_from_json(str(start / TRAINER_STATE_NAME))
        else:
            trainer.train(resume_from_checkpoint=None if start is None else str(start))
        return _finish(job, trainer, callback)


# Other optimizers have not been compared with one process on sharded weights or states.
SPREAD_OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "sgd")


def check_engine_arguments(options: Options, given: Mapping[str, Any], engine: Engine) -> None:
    """Raise PG837 for what needs one process, or whole weights and states."""
    if not engine.is_distributed:
        return
    spread = engine.shards_weights or bool(engine.zero_stage)
    alone = "works on one process"
    whole = f"has been shown with whole weights and states alone, and {engine.name} spreads them"
    asked = {**given, **dataclasses.asdict(options)}
    for name, goes, what, hint in (
        ("search", ([],), alone, "search on one, and train on several"),
        ("auto_find_batch_size", (None, False), alone, "`patchgen memory`"),
        ("lora_rank", (0,), whole, "--engine ddp"),
        ("muon", (False,), whole, "--engine ddp"),
        ("fp16", (None, False), whole, "--bf16"),
        ("dtype", ("float32",), whole, "--bf16, or --engine fsdp2,mixed"),
        ("torch_compile", (None, False), whole, "--engine ddp"),
        ("optim", (None, *SPREAD_OPTIMIZERS), whole, f"one of {', '.join(SPREAD_OPTIMIZERS)}"),
    ):
        if asked.get(name) not in goes and (spread or what is alone):
            refuse(name, asked[name], what, hint, code="PG837")


def _on_cuda(given: Mapping[str, Any]) -> bool:
    return torch.cuda.is_available() and not given.get("use_cpu")


@contextlib.contextmanager
def guard(folder: Path, engine: Engine, *, claims: bool) -> Iterator[None]:
    """Hold the lock of the run, and turn what stops it into an error that says how to go on.

    Whole checkpoints stay, and an unfinished one is removed.  A folder that has checkpoints is only
    taken to go on with it.
    """
    from filelock import FileLock

    lock = FileLock(folder / LOCK)
    first_process_first(engine, lambda: _claim(folder, lock, claims) if engine.is_first else None)
    collecting = gc.isenabled()
    gc.enable()  # the command line switches it off, but a run is long
    try:
        yield
    except PatchgenError:
        if claims and engine.is_first and not (folder / ARGUMENTS).exists():
            lock.release()
            disk.remove(folder / LOCK, folder)
            with contextlib.suppress(OSError):  # the folder has other files
                disk.remove(folder, folder.parent)
        raise
    except Exception as error:
        explained = _explain_stop(error, folder, engine)
        if explained is None:
            raise
        raise explained from error
    finally:
        lock.release()
        if not collecting:
            gc.disable()


def _claim(folder: Path, lock: Any, claims: bool) -> None:
    """Lock the folder of a run; raise PG817 where it has another run, or cannot be made."""
    from filelock import Timeout

    where = Location(str(folder))
    if claims and folder.is_dir() and list_checkpoints(folder):
        hint = "--resume_from_checkpoint last goes on with it; or another --output_dir"
        raise PatchgenError("PG817", where, "holds checkpoints of another run", hint)
    try:
        disk.make_folder(folder)
        lock.acquire(timeout=0)
    except Timeout:
        what = "another process has locked this run"
        raise PatchgenError("PG817", where, what, "wait for it to end") from None
    except OSError as error:
        what = f"cannot be made: {error}"
        raise PatchgenError("PG817", where, what, "give --output_dir another folder") from error


def _explain_stop(error: Exception, folder: Path, engine: Engine) -> PatchgenError | None:
    """Return why a run has stopped, and how to go on; None for a defect."""
    line = " ".join(str(error).split("\n")[0].split())
    if engine.is_distributed and is_peer_failure(error):
        ignore_termination(engine)
        process = f"process {engine.launch.rank} of {engine.launch.world}"
        code = "PG836"
        what = f"{process} cannot go on without the others: {line}"
        hint = "the launcher's message on the first failed process says why"
    elif is_of_memory(error):
        code = "PG816"
        what = f"there is not enough memory: {line}"
        hint = "--auto_find_batch_size, --gradient_checkpointing, a smaller --length, "
        hint += "--dtype bfloat16, --lora_rank 8"
    elif _is_of_the_disk(error):
        with contextlib.suppress(OSError):
            discard_unfinished(folder)
        code = "PG910"
        what = f"cannot be written: {line}"
        hint = "free some space"
    else:
        return None
    return PatchgenError(code, Location(str(folder)), what, f"{hint}; {resume_hint(folder)}")


def _is_of_the_disk(error: BaseException | None) -> bool:
    """Return whether the error, or one of its causes, is that nothing more can be written."""
    while error is not None:
        full = isinstance(error, OSError) and error.errno in FULL
        if full or re.search(DISK_FULL, str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def resume_hint(folder: Path) -> str:
    """Return how to go on with a run that ended early."""
    sealed = complete_checkpoints(folder)
    if not sealed:
        return "the run has no checkpoint yet"
    path = os.path.relpath(folder / ARGUMENTS)
    step = checkpoint_step(sealed[-1])
    return f"patchgen train {path} --resume_from_checkpoint last goes on after step {step}"


def _find_start(folder: Path, resumed: str, engine: Engine) -> Path | None:
    """Return the checkpoint to go on from; None where the run has none yet.

    Raises PatchgenError PG848 where another engine, or another number of processes, wrote it.
    """
    by_name = str(resumed).lower() not in ("true", "last")
    if engine.is_first:
        for unfinished in discard_unfinished(folder):
            note(f"{unfinished.name} was being written when the run ended, and is removed")
    start = find_checkpoint(resumed if by_name else folder)
    record = start.parent / RUN if start is not None else None
    if record is not None and record.is_file():
        written = disk.read_json(record).get("layout", engine.layout)
        if written != engine.layout:
            what = f"it is of {written}, and this is {engine.layout}"
            hint = f"--engine {written} goes on; --weights {start} begins a run with its weights"
            raise PatchgenError("PG848", Location(str(start)), what, hint)
    if engine.is_first:
        note(
            "the run has no checkpoint yet and starts again"
            if start is None
            else f"goes on after step {checkpoint_step(start)}"
        )
    return start


def prepare(options: Options, given: Mapping[str, Any], engine: Engine) -> Job:
    """Return the job of a run.  Raises PatchgenError for what is not possible."""
    device = "cuda" if _on_cuda(given) else "cpu"
    check_deepspeed(engine, device)
    source = find_source(options)
    more: dict[str, Any] = make_zero_arguments(engine, bool(given.get("bf16")), device)
    if engine.name == "tp":
        more["parallelism_config"] = OnAnyDevice(tp_size=engine.launch.world)
    arguments = make_arguments(options, given, from_weights=bool(source.checkpoint), **more)
    evaluated = arguments.do_eval or bool(options.search)
    # The first fills the caches, and the others read them.
    data = first_process_first(
        engine, lambda: prepare_data(options, source.checkpoint, evaluated=evaluated)
    )
    digests = gather(engine, data.digest)
    if len(set(digests)) > 1:
        rank = next(rank for rank, digest in enumerate(digests) if digest != digests[0])
        what = f"process {rank} reads other data under this name than process 0"
        hint = "the data must be the same on each machine"
        raise PatchgenError("PG815", Location(data.source), what, hint)
    return Job(options, arguments, engine, source, data)


class OnAnyDevice(ParallelismConfig):
    """Tells accelerate which processes get the same rows, on a CPU too.

    patchgen has distributed the weights already.
    """

    def _validate_accelerator(self, accelerator: Any) -> None:
        if self.total_size != accelerator.num_processes:
            count = accelerator.num_processes
            raise ValueError(f"{self.total_size} processes are asked for, and there are {count}")


def _record_attempt(job: Job) -> None:
    """Add this attempt to the record of the run, with what it runs on.

    Raises PatchgenError PG817 where the run began with other data.
    """
    path = job.folder / RUN
    before = disk.read_json(path) if path.is_file() else {}
    digest = job.data.digest
    if before.get("data", digest) != digest:
        what = f"{job.data.source} is not what the run began with"
        hint = "give it the same data and options, or begin a new run with another --output_dir"
        raise PatchgenError("PG817", Location(str(job.folder)), what, hint)
    attempts = [*before.get("attempts", []), describe_environment(job.arguments.device.type)]
    wait(job.engine)
    if job.engine.is_first:
        rows = [len(job.data.train), len(job.data.kept)]
        record = {"data": digest, "rows": rows, "layout": job.engine.layout, "attempts": attempts}
        _write(path, record)


def _write(path: Path, values: Mapping[str, Any]) -> None:
    disk.write(path, json.dumps(values, indent=1) + "\n", path.parent)


def write_arguments(options: Options, given: Mapping[str, Any], engine: Engine) -> None:
    """Write the arguments of a run, for `patchgen train RUN/arguments.json`."""
    if not engine.is_first:
        return
    folder = output_of(options, given)
    arguments = {**given, "output_dir": str(folder)}
    arguments.pop("resume_from_checkpoint", None)
    defaults = Options()
    for name, value in dataclasses.asdict(options).items():
        if value != getattr(defaults, name):
            arguments[name] = value
    _write(folder / ARGUMENTS, arguments)


def _has_ended(trainer: Any, start: Path) -> bool:
    """Return whether the checkpoint `start` is of the last step: Trainer would make one more."""
    state = TrainerState.load_from_json(str(start / TRAINER_STATE_NAME))
    steps = trainer.set_initial_training_values(trainer.args, trainer.get_train_dataloader())[-1]
    return bool(state.global_step >= steps)


def _finish(job: Job, trainer: Any, callback: VariantCallback) -> dict[str, Any]:
    """Save the model and the state of a training, and return its final figures."""
    steps = trainer.state.global_step
    figures: dict[str, Any] = {"steps": steps}
    evaluation = None
    for entry in trainer.state.log_history:
        if "loss" in entry:
            figures["loss"] = entry["loss"]
        if "eval_loss" in entry and entry["step"] == steps:
            evaluation = entry
    if job.data.kept:
        evaluation = evaluation or trainer.evaluate()
        for name in ("eval_loss", "eval_accuracy"):
            if name in evaluation:
                figures[name] = evaluation[name]
    figures |= callback.figures(callback.tokens_a_second)
    trainer.save_model()
    trainer.save_state()
    if job.engine.is_first:
        path = job.folder / RUN
        attempts = disk.read_json(path)
        attempts["attempts"][-1]["engine"] = callback.report
        _write(path, {**attempts, "figures": figures})
    wait(job.engine)
    return figures


def search(job: Job, given: Mapping[str, Any]) -> dict[str, Any]:
    """Search for settings by Trainer and Optuna, and return what was tried, the best first.

    The given settings are the middle of the space.  Each trial is stored when it ends, so a search
    that was killed goes on.  With two objectives the best are the Pareto front: the trials that no
    other trial beats in both.
    """
    optuna = needs("optuna", "--search")
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    objectives = job.options.search
    args = job.arguments
    directions = [DIRECTIONS[objective] for objective in objectives]
    # Other objectives are another study.
    kept: dict[str, Any] = {"study_name": " and ".join(objectives), "load_if_exists": True}
    kept["storage"] = JournalStorage(JournalFileBackend(str(job.folder / TRIALS)))
    study = optuna.create_study(directions=directions, **kept)
    complete = (optuna.trial.TrialState.COMPLETE,)
    done = len(study.get_trials(deepcopy=False, states=complete))
    batch = args.per_device_train_batch_size
    args.save_strategy = "no"
    trainer = job.trainer(model_init=lambda trial=None: job.build())
    callback = VariantCallback(trainer, job.engine)
    trainer.add_callback(callback)
    write_arguments(job.options, given, job.engine)

    def objective_values(metrics: Mapping[str, float]) -> Any:
        known = {"loss": metrics.get("eval_loss"), "throughput": callback.tokens_a_second}
        reached = [known[objective] for objective in objectives]
        return reached if len(reached) > 1 else reached[0]

    if done < job.options.trials:
        trainer.hyperparameter_search(
            hp_space=lambda trial: _draw_settings(trial, args.learning_rate, batch),
            compute_objective=objective_values,
            n_trials=job.options.trials - done,
            direction=directions if len(directions) > 1 else directions[0],
            backend="optuna",
            **kept,
            # With the same seed, a search that goes on would repeat its first settings.
            sampler=optuna.samplers.TPESampler(seed=args.seed + done),
        )
    trials = study.get_trials(deepcopy=False, states=complete)
    tried = {"objectives": objectives, "trials": _best_first(trials, study, objectives[0])}
    _write(job.folder / SEARCH, tried)
    return tried


def _best_first(trials: Sequence[Any], study: Any, objective: str) -> list[dict[str, Any]]:
    """What was tried, the trials that no other beats before the rest."""
    front = {trial.number for trial in study.best_trials}
    ranked = sorted(trials, key=lambda trial: trial.values[0], reverse=objective == "throughput")
    ranked.sort(key=lambda trial: trial.number not in front)
    tried = []
    for trial in ranked:
        tried.append(
            {
                "number": trial.number,
                "settings": trial.params,
                "values": trial.values,
                "best": trial.number in front,
            }
        )
    return tried


def _draw_settings(trial: Any, rate: float, batch: int) -> dict[str, Any]:
    """What a trial of Optuna tries, around the given learning rate and batch."""
    half = max(1, batch // 2)
    batches = sorted({half, batch, 2 * batch})
    trial.suggest_float("learning_rate", rate / AROUND, rate * AROUND, log=True)
    trial.suggest_float("weight_decay", 0.0, 0.1)
    trial.suggest_float("warmup_steps", 0.0, 0.2)
    trial.suggest_categorical("per_device_train_batch_size", batches)
    settings: dict[str, Any] = trial.params
    return settings
