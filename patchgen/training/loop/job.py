"""What is known of a run before its first step: recipe, place, device, model, rows; and what is measured of it.

In: a recipe and a folder.  Out: a `Job`, after all is refused that this machine, model or text cannot do.
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

from patchgen.errors import Location, PatchgenError
from patchgen.training.loop.arguments import arguments_of
from patchgen.training.loop.batch_scaling import ROWS, rows_of_a_step, shared
from patchgen.training.loop.corpus import insist_on_one_text
from patchgen.training.loop.engine import device_of, insist_on_engine_switches
from patchgen.training.loop.fit import gib
from patchgen.training.loop.folder import FOUND, RunFolder
from patchgen.training.loop.loss_normalization import shortened, takes_means
from patchgen.training.loop.machine import description, free_memory, insist_on_machine
from patchgen.training.loop.meter import Meter, Rates, Watch
from patchgen.training.loop.models import Source, dtype_of, parameters_of, source_of
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.rows import Row, lengths_of
from patchgen.training.loop.setup import Material, built, material_of
from patchgen.training.loop.switches import insist_on_sense, refuse
from patchgen.training.loop.trainer import EngineTrainer
from patchgen.training.parallel.accelerate_settings import rows_of_processes
from patchgen.training.parallel.distribute import spread
from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.engine_check import Asserted, insist_on_layout
from patchgen.training.parallel.process_group import first_goes_first
from patchgen.training.parallel.zero import arguments_of_zero, insist_on_deepspeed, insist_on_sizes
from patchgen.training.precision import products_in
from patchgen.training.rate.flops import Forward, count_forward, pairs_of
from patchgen.training.rate.peak import datasheet, product, products_by_tf32

TYPICAL = 1000  # rows whose lengths say what a token costs
STATES = 2  # of an optimizer for each weight, the most that is usual


@dataclass(frozen=True, slots=True)
class Job:
    """One run."""

    recipe: Recipe
    folder: RunFolder
    watch: Watch
    device: str
    engine: Engine
    source: Source
    material: Material

    def model(self) -> Any:
        """A new model, as training begins with it; whoever looks on is told what its checkpoint lacks."""
        return built(self.recipe, self.source, self.material, self.watch.note)

    def laid_out(self, model: Any) -> Any:
        """The model as the engine lays it out; it began as `model()` gives it."""
        insist_on_sizes(model, self.engine)
        model = spread(model, self.engine, self.device)
        insist_on_layout(model, self.engine)
        return model

    def takes_means(self, model: Any) -> bool:
        """Whether the model's loss is a mean over its own batch alone; asked before it is laid out."""
        return takes_means(model, self.material.collate(shortened(self.material.train[:2])))

    def arguments(self, batch: int, **changes: Any) -> Any:
        """What Trainer is to do, with `batch` rows a step; `changes` in its own words."""
        rows = rows_of_processes(self.engine)
        given = {"parallelism_config": rows} if rows is not None else {}
        given |= arguments_of_zero(self.engine, self.recipe.precision, self.device)
        return arguments_of(
            self.recipe, self.folder.path, self.device, batch, **{**given, **changes}
        )

    def trainer(self, arguments: Any, **changes: Any) -> Any:
        """Trainer, with the job's rows; `changes` are what else it takes."""
        made = EngineTrainer(
            engine=self.engine,
            args=arguments,
            data_collator=self.material.collate,
            processing_class=self.material.tokenizer,
            compute_metrics=accuracy if self.recipe.task == "classification" else None,
            **{"train_dataset": self.material.train, "eval_dataset": self.material.kept, **changes},
        )
        made.remove_callback(PrinterCallback)  # it prints; the meter tells
        return made


def job_of(
    recipe: Recipe, folder: RunFolder, watch: Watch, engine: Engine, *, search: bool = False
) -> Job:
    """The job of a recipe.  Raises PatchgenError (PG81x, PG910) for what cannot be done."""
    insist_on_sense(recipe)
    recipe = shared(recipe, folder.found(), engine)
    device = device_of(recipe.device)
    insist_on_machine(recipe, device, search=search)
    insist_on_engine_switches(recipe, engine, search=search)
    insist_on_deepspeed(engine, device)
    engine = dataclasses.replace(engine, mixed=recipe.precision == "fsdp-mixed")
    _insist_on_optimizer(recipe, folder.path, device)
    _insist_on_schedule(recipe)
    source = source_of(recipe)
    with first_goes_first(engine):  # it writes the tokenizer, and the others read it
        material = material_of(recipe, source, folder)
    insist_on_one_text(material.corpus, engine)
    job = Job(recipe, folder, watch, device, engine, source, material)
    _insist_on_the_same_text(job)
    _insist_on_room(job)
    return job


def _insist_on_optimizer(recipe: Recipe, output: Path, device: str) -> None:
    """PG814 where Trainer cannot make the optimizer here: some are of packages of their own."""
    try:
        Trainer.get_optimizer_cls_and_kwargs(arguments_of(recipe, output, device, 1))
    except (ImportError, ValueError) as error:
        what = f"Trainer cannot make it: {' '.join(str(error).split())}"
        raise PatchgenError("PG814", Location(f"--optim {recipe.optim}"), what) from error


def _insist_on_schedule(recipe: Recipe) -> None:
    """PG813 where a schedule needs what no switch gives it: a lowest rate, or a number of steps of its own."""
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


def _insist_on_the_same_text(job: Job) -> None:
    before = job.folder.found().get("data", {}).get("digest")
    if before is not None and before != job.material.corpus.digest:
        what = f"{job.material.corpus.source} is not what the run began with"
        hint = "give it the same text, or begin a new run"
        raise PatchgenError("PG817", Location(str(job.folder.path)), what, hint)


def _insist_on_room(job: Job) -> None:
    """Refuse what no batch makes fit: weights and gradients in memory, checkpoints on the disk."""
    if job.source.checkpoint:  # its size is that of its files, which are there
        return
    recipe = job.recipe
    parameters = parameters_of(job.source, recipe, job.material.tokenizer, job.material.labels)
    needed = parameters * dtype_of(recipe).itemsize * (1 if recipe.lora else 2) // job.engine.shares
    if needed > (free := free_memory(job.device)):
        what = f"{parameters:,} parameters take {gib(needed)} with their gradients, and {gib(free)} are free"
        hint = "--tiny, --config num_hidden_layers=4 and such, or --lora on"
        raise PatchgenError("PG816", Location(recipe.model), what, hint)
    if not recipe.save_every or recipe.lora:
        return
    needed = parameters * dtype_of(recipe).itemsize * (1 + STATES) * (recipe.keep + 1)
    if needed > (free := shutil.disk_usage(job.folder.path).free):
        what = f"{recipe.keep} checkpoints, and one more while it is written, take {gib(needed)}; {gib(free)} are free"
        raise PatchgenError(
            "PG910", Location(str(job.folder.path)), what, "another --output, or --save-every 0"
        )


def accuracy(predicted: Any) -> dict[str, float]:
    """The share of passages whose label is found."""
    logits = (
        predicted.predictions[0]
        if isinstance(predicted.predictions, tuple)
        else predicted.predictions
    )
    return {"accuracy": float(numpy.mean(logits.argmax(-1) == predicted.label_ids))}


def measured(job: Job, model: Any) -> Meter:
    """What will measure the run, after what a token costs and what the device can do is known."""
    whole = sum(parameter.nbytes for parameter in model.parameters())
    # Else it stays on the CPU until it is spread.
    if job.engine.shares == 1 or 2 * whole < free_memory(job.device):
        model.to(job.device)
    return Meter(job.folder, job.watch, job.device, rates_of(job, model.config), job.engine)


def rates_of(job: Job, config: Any) -> Rates:
    """What MFU is made of; the run has none where shapes do not tell how many operations the model takes."""
    recipe = job.recipe
    forward = count_forward(job.source.model_class, config, recipe.length)
    if forward is None:
        job.watch.note("no MFU: shapes alone do not say how many operations this model takes")
    dtype = products_in(recipe.precision)
    name = torch.cuda.get_device_name() if job.device == "cuda" else ""
    per_token = (
        None if forward is None else operations_of_a_token(forward, job.material.train, recipe)
    )
    with products_by_tf32(recipe.precision == "tf32"):
        return Rates(per_token, product(job.device, dtype), datasheet(name, dtype))


def operations_of_a_token(forward: Forward, rows: Sequence[Row], recipe: Recipe) -> float:
    """Of a training step for each real token, at the mean of the first rows."""
    lengths = [length for row in rows[:TYPICAL] for length in lengths_of(row)]
    tokens = sum(lengths)
    seen = {
        "causal-lm": float(tokens - len(lengths)),  # nothing predicts a text's first token
        "masked-lm": recipe.masked * tokens,
        "classification": float(len(lengths)),
    }
    work = forward.step(
        tokens=tokens,
        labelled=seen[recipe.task],
        pairs=pairs_of(lengths),
        causal=recipe.task == "causal-lm",
        frozen=bool(recipe.lora),
    )
    return work / tokens


def write_down(job: Job, model: Any, batch: int, meter: Meter) -> None:
    """What was found, and what runs it: one attempt more."""
    parameters, material = list(model.parameters()), job.material
    told = {
        "model": f"{job.source.model_class.__module__}.{job.source.model_class.__name__}",
        "parameters": sum(parameter.numel() for parameter in parameters),
        "trained_parameters": sum(
            parameter.numel() for parameter in parameters if parameter.requires_grad
        ),
        "data": {
            "source": material.corpus.source,
            "digest": material.corpus.digest,
            "passages": [len(material.corpus.train), len(material.corpus.kept)],
            "rows": [len(material.train), len(material.kept)],
            "labels": list(material.labels),
        },
        "vocabulary": len(material.tokenizer),
        "batch_size": batch,
        ROWS: rows_of_a_step(job.recipe, batch, job.engine),
        "seed": job.recipe.seed,
        "operations_per_token": meter.rates.per_token,
        "operations_per_second_of_the_device": meter.rates.peak,
        "operations_per_second_of_its_datasheet": meter.rates.datasheet,
        "configuration": model.config.to_diff_dict(),
        "attempts": [*job.folder.found().get("attempts", []), description(job.device)],
    }
    job.folder.write(FOUND, told)


def write_engine(job: Job, seen: Asserted) -> None:
    """What engine runs this attempt, and what each process holds."""
    if not job.folder.writes:
        return
    told = job.folder.found()
    told["attempts"][-1]["engine"] = dataclasses.asdict(seen)
    job.folder.write(FOUND, told)
