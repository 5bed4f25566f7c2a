"""Prepares a run up to its first step: device, model and rows.

Raises for everything that this machine, model or text does not support, and records what the run
uses.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import PrinterCallback, Trainer, get_scheduler

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.device_memory import free_memory
from patchgen.training.loop.arguments import make_arguments
from patchgen.training.loop.batch_scaling import ROWS, rows_per_step, scale_batch
from patchgen.training.loop.corpus import check_text_is_shared
from patchgen.training.loop.engine import check_engine_switches, choose_device
from patchgen.training.loop.fit import format_gib
from patchgen.training.loop.folder import FOUND, RunFolder
from patchgen.training.loop.loss_normalization import ignores_label_count, shortened
from patchgen.training.loop.machine import check_machine, describe_environment
from patchgen.training.loop.meter import Meter, Rates, Watch
from patchgen.training.loop.models import Source, count_parameters, find_source, weight_dtype
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.rows import Row, text_lengths
from patchgen.training.loop.setup import TrainingData, build_seeded_model, prepare_data
from patchgen.training.loop.switches import check_switches, refuse
from patchgen.training.loop.trainer import EngineTrainer
from patchgen.training.parallel.accelerate_settings import make_parallelism_config
from patchgen.training.parallel.distribute import distribute
from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.engine_check import EngineReport, check_layout
from patchgen.training.parallel.process_group import first_process_first
from patchgen.training.parallel.zero import check_deepspeed, check_sizes, make_zero_arguments
from patchgen.training.precision import products_in
from patchgen.training.rate.flops import ForwardCost, count_forward_flops, count_pairs
from patchgen.training.rate.peak import datasheet_flops, product_flops

TYPICAL = 1000  # rows that are enough to average over
STATES = 2  # tensors that AdamW keeps for each weight


@dataclass(frozen=True, slots=True)
class Job:
    """One run: its recipe, and all that was prepared for it."""

    recipe: Recipe
    folder: RunFolder
    watch: Watch
    device: str
    engine: Engine
    source: Source
    data: TrainingData

    def model(self) -> Any:
        """Build a model with its initial weights, and note what the checkpoint lacks."""
        return build_seeded_model(self.recipe, self.source, self.data, self.watch.note)

    def distribute(self, model: Any) -> Any:
        """Lay the model out over the processes of the engine."""
        check_sizes(model, self.engine)
        model = distribute(model, self.engine, self.device)
        check_layout(model, self.engine)
        return model

    def ignores_label_count(self, model: Any) -> bool:
        """Return whether the model's loss is a mean over its own batch only.

        Call it before the model is distributed.
        """
        return ignores_label_count(model, self.data.collate(shortened(self.data.train[:2])))

    def arguments(self, batch: int, **changes: Any) -> Any:
        """Return Trainer's arguments for `batch` rows; `changes` are arguments too."""
        rows = make_parallelism_config(self.engine)
        given = {"parallelism_config": rows} if rows is not None else {}
        given |= make_zero_arguments(self.engine, self.recipe.precision, self.device)
        return make_arguments(
            self.recipe, self.folder.path, self.device, batch, **{**given, **changes}
        )

    def trainer(self, arguments: Any, **changes: Any) -> Any:
        """Return a Trainer with the job's rows; `changes` are its other parameters."""
        made = EngineTrainer(
            engine=self.engine,
            args=arguments,
            data_collator=self.data.collate,
            processing_class=self.data.tokenizer,
            compute_metrics=accuracy if self.recipe.task == "classification" else None,
            **{"train_dataset": self.data.train, "eval_dataset": self.data.kept, **changes},
        )
        made.remove_callback(PrinterCallback)  # it prints, which the meter does better
        return made


def prepare_job(
    recipe: Recipe, folder: RunFolder, watch: Watch, engine: Engine, *, search: bool = False
) -> Job:
    """Return the job of a recipe.  Raises PatchgenError (PG81x, PG910) for what is not possible."""
    check_switches(recipe)
    recipe = scale_batch(recipe, folder.found(), engine)
    device = choose_device(recipe.device)
    check_machine(recipe, device, search=search)
    check_engine_switches(recipe, engine, search=search)
    check_deepspeed(engine, device)
    engine = dataclasses.replace(engine, mixed=recipe.precision == "fsdp-mixed")
    _check_optimizer(recipe, folder.path, device)
    _check_schedule(recipe)
    source = find_source(recipe)
    with first_process_first(engine):  # it writes the tokenizer, and the others read it
        data = prepare_data(recipe, source, folder)
    check_text_is_shared(data.corpus, engine)
    job = Job(recipe, folder, watch, device, engine, source, data)
    _check_same_text(job)
    _check_resources(job)
    return job


def _check_optimizer(recipe: Recipe, output: Path, device: str) -> None:
    """Raise PG814 where Trainer cannot make the optimizer: some need a package."""
    try:
        Trainer.get_optimizer_cls_and_kwargs(make_arguments(recipe, output, device, 1))
    except (ImportError, ValueError) as error:
        what = f"Trainer cannot make it: {' '.join(str(error).split())}"
        raise PatchgenError("PG814", Location(f"--optim {recipe.optim}"), what) from error


def _check_schedule(recipe: Recipe) -> None:
    """Raise PG813 for a schedule that needs an argument which no switch sets."""
    nothing = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    try:
        get_scheduler(recipe.schedule, nothing, num_warmup_steps=1, num_training_steps=2)
    except (ValueError, TypeError) as error:
        refuse(
            "schedule",
            recipe.schedule,
            f"cannot be made: {' '.join(str(error).split())}",
            "linear, cosine, constant",
        )


def _check_same_text(job: Job) -> None:
    before = job.folder.found().get("data", {}).get("digest")
    if before is not None and before != job.data.corpus.digest:
        what = f"{job.data.corpus.source} is not what the run began with"
        hint = "give it the same text, or begin a new run"
        raise PatchgenError("PG817", Location(str(job.folder.path)), what, hint)


def _check_resources(job: Job) -> None:
    """Raise where no batch size would fit: weights in memory, or checkpoints on the disk."""
    if job.source.checkpoint:  # its size is that of its files, which are there
        return
    recipe = job.recipe
    parameters = count_parameters(job.source, recipe, job.data.tokenizer, job.data.labels)
    needed = (
        parameters
        * weight_dtype(recipe).itemsize
        * (1 if recipe.lora else 2)
        // job.engine.weight_shards
    )
    if needed > (free := free_memory(job.device)):
        what = (
            f"{parameters:,} parameters and their gradients take {format_gib(needed)}, "
            f"and {format_gib(free)} are free"
        )
        hint = "--tiny, --config num_hidden_layers=4 and such, or --lora on"
        raise PatchgenError("PG816", Location(recipe.model), what, hint)
    if not recipe.save_every or recipe.lora:
        return
    needed = parameters * weight_dtype(recipe).itemsize * (1 + STATES) * (recipe.keep + 1)
    if needed > (free := shutil.disk_usage(job.folder.path).free):
        size = format_gib(needed)
        what = f"{recipe.keep + 1} checkpoints take {size}, and {format_gib(free)} are free"
        raise PatchgenError(
            "PG910", Location(str(job.folder.path)), what, "another --output, or --save-every 0"
        )


def accuracy(predicted: Any) -> dict[str, float]:
    """Return the share of passages with the right label."""
    logits = (
        predicted.predictions[0]
        if isinstance(predicted.predictions, tuple)
        else predicted.predictions
    )
    return {"accuracy": float(numpy.mean(logits.argmax(-1) == predicted.label_ids))}


def make_meter(job: Job, model: Any) -> Meter:
    """Return the meter of a run, after measuring what the device can do."""
    whole = sum(parameter.nbytes for parameter in model.parameters())
    # A larger model stays on the CPU until it is distributed.
    if job.engine.weight_shards == 1 or 2 * whole < free_memory(job.device):
        model.to(job.device)
    return Meter(job.folder, job.watch, job.device, measure_rates(job, model.config), job.engine)


def measure_rates(job: Job, config: Any) -> Rates:
    """Return what MFU is computed from; without FLOPs where shapes do not determine them."""
    recipe = job.recipe
    forward = count_forward_flops(job.source.model_class, config, recipe.length)
    if forward is None:
        job.watch.note("no MFU: the FLOPs of this model do not follow from shapes alone")
    dtype = products_in(recipe.precision)
    name = torch.cuda.get_device_name() if job.device == "cuda" else ""
    per_token = None if forward is None else flops_per_token(forward, job.data.train, recipe)
    peak = product_flops(job.device, dtype, tf32=recipe.precision == "tf32")
    return Rates(per_token, peak, datasheet_flops(name, dtype))


def flops_per_token(forward: ForwardCost, rows: Sequence[Row], recipe: Recipe) -> float:
    """Return the FLOPs of a training step for each real token, from the first rows."""
    lengths = [length for row in rows[:TYPICAL] for length in text_lengths(row)]
    tokens = sum(lengths)
    labelled_tokens = {
        "causal-lm": float(tokens - len(lengths)),  # nothing predicts a text's first token
        "masked-lm": recipe.masked * tokens,
        "classification": float(len(lengths)),
    }
    work = forward.step(
        tokens=tokens,
        labelled=labelled_tokens[recipe.task],
        pairs=count_pairs(lengths),
        causal=recipe.task == "causal-lm",
        frozen=bool(recipe.lora),
    )
    return work / tokens


def record_run(job: Job, model: Any, batch: int, meter: Meter) -> None:
    """Write run.json, with one more attempt."""
    parameters, data = list(model.parameters()), job.data
    found = {
        "model": f"{job.source.model_class.__module__}.{job.source.model_class.__name__}",
        "parameters": sum(parameter.numel() for parameter in parameters),
        "trained_parameters": sum(
            parameter.numel() for parameter in parameters if parameter.requires_grad
        ),
        "data": {
            "source": data.corpus.source,
            "digest": data.corpus.digest,
            "passages": [len(data.corpus.train), len(data.corpus.kept)],
            "rows": [len(data.train), len(data.kept)],
            "labels": list(data.labels),
        },
        "vocabulary": len(data.tokenizer),
        "batch_size": batch,
        ROWS: rows_per_step(job.recipe, batch, job.engine),
        "seed": job.recipe.seed,
        "operations_per_token": meter.rates.per_token,
        "operations_per_second_of_the_device": meter.rates.peak,
        "operations_per_second_of_its_datasheet": meter.rates.datasheet,
        "configuration": model.config.to_diff_dict(),
        "attempts": [*job.folder.found().get("attempts", []), describe_environment(job.device)],
    }
    job.folder.write(FOUND, found)


def record_engine(job: Job, report: EngineReport) -> None:
    """Record the engine of this attempt, and what each process holds."""
    if not job.folder.writes:
        return
    found = job.folder.found()
    found["attempts"][-1]["engine"] = dataclasses.asdict(report)
    job.folder.write(FOUND, found)
