"""The whole way of a run: text, tokens, rows, model, what fits, training, figures.

In: a recipe and a folder.  Out: the folder, filled, and an `Ended`.  Training itself is transformers' Trainer.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
from transformers import PrinterCallback, Trainer, set_seed

from patchgen.errors import Location, PatchgenError
from patchgen.train.arguments import arguments_of
from patchgen.train.checkpoints import Sealing, checkpoints, discard_unfinished, step_of, to_resume
from patchgen.train.corpus import Corpus, insist_on_labels, read_corpus
from patchgen.train.engine import device_of
from patchgen.train.fit import NoMemory, gib, insist_on_fit, largest_batch, out_of_memory_is_an_error, too_large_hint
from patchgen.train.folder import FOUND, RESULT, RunFolder, alone
from patchgen.train.layers import compile_layers, insist_on_checkpointing
from patchgen.train.machine import description, free_memory, insist_on_machine, peak_memory
from patchgen.train.meter import Meter, Watch, draw, operations_a_second, operations_of_a_token
from patchgen.train.models import Note, Source, build, parameters_of, silent, source_of
from patchgen.train.quiet import quiet
from patchgen.train.recipe import Recipe
from patchgen.train.rows import Collate, Row, insist_on_passages_apart, insist_on_rows, rows_of
from patchgen.train.switches import compiling, insist_on_sense
from patchgen.train.vocabulary import loaded_tokenizer, trained_tokenizer

SAMPLE = 8  # rows on which the operations of a token are counted
WEIGHT = 4  # bytes: weights and gradients are kept in float32
STATES = 2  # of an optimizer for each weight, the most that is usual
# What a full or failing disk is called; a file that may not be so large is one to whoever writes it.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
FULL_TOLD = (
    "No space left",
    "File too large",
    "Disk quota",
    "os error 28",
    "os error 27",
    "PytorchStreamWriter",
    "inline_container",
)


@dataclass(frozen=True, slots=True)
class Material:
    """What is trained on, and what reads it."""

    corpus: Corpus
    tokenizer: Any
    labels: tuple[str, ...]
    train: list[Row]
    kept: list[Row]
    collate: Collate


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a run."""

    folder: Path
    figures: Mapping[str, float]
    resumed_from: int = 0  # step


def train(recipe: Recipe, folder: RunFolder, watch: Watch, *, resume: bool = False, at: int | None = None) -> Ended:
    """Train as the recipe says, into the folder; from its last checkpoint, or that of step `at`, if `resume`.

    Raises PatchgenError for what cannot be done (PG81x), for a disk or memory that is full (PG910, PG816), and for a
    loss that is no number any more (PG820).  What was written before stays.
    """
    with guarded(folder, fresh=not resume):
        device, source = insist_on_all(recipe, folder)
        material = material_of(recipe, source, folder)
        _insist_on_the_same_text(folder, material)
        _insist_on_room(recipe, source, material, folder, device)
        batch = _batch(recipe, source, material, folder, device, watch)
        start = _start(folder, at, watch) if resume else None
        model = built(recipe, source, material, watch.note)
        trainer, meter = _trainer(recipe, material, model, folder, device, batch, watch)
        write_down(folder, recipe, source, material, model, device, batch, meter)
        trainer.train(resume_from_checkpoint=None if start is None else str(start))
        return _ended(trainer, meter, folder, material, 0 if start is None else step_of(start))


@contextlib.contextmanager
def guarded(folder: RunFolder, *, fresh: bool) -> Iterator[None]:
    """While no other process is at the run; what stops it in its middle becomes a PatchgenError.

    Of a `fresh` run that is refused before anything is trained, nothing is left.
    """
    with alone(folder), quiet():
        try:
            with _failures(folder):
                yield
        except PatchgenError:
            if fresh and not folder.found():
                folder.forget()
            raise


def insist_on_all(recipe: Recipe, folder: RunFolder, *, search: bool = False) -> tuple[str, Source]:
    """The device and the model, after everything is refused that cannot be, but for what the text has to say."""
    insist_on_sense(recipe)
    device = device_of(recipe.device)
    insist_on_machine(recipe, device, search=search)
    _insist_on_optimizer(recipe, folder, device)
    return device, source_of(recipe)


def material_of(recipe: Recipe, source: Source, folder: RunFolder | None = None) -> Material:
    """Text, tokens and rows.  The tokenizer is the run's own where it has one, and is written there where not."""
    corpus = read_corpus(recipe)
    labels = tuple(insist_on_labels(corpus)) if recipe.task == "classification" else ()
    before = loaded_tokenizer(folder.tokenizer) if folder is not None and folder.tokenizer.is_dir() else None
    tokenizer = before or (loaded_tokenizer(source.checkpoint) if source.checkpoint else None)
    if tokenizer is None:
        tokenizer = trained_tokenizer((passage.text for passage in corpus.train), recipe.vocabulary)
    if recipe.task == "masked-lm" and tokenizer.mask_token_id is None:
        raise PatchgenError("PG812", Location(source.checkpoint), "its tokenizer has no mask")
    if before is None and folder is not None:
        tokenizer.save_pretrained(folder.tokenizer)
    train, kept = (rows_of(part, tokenizer, recipe, labels) for part in (corpus.train, corpus.kept))
    insist_on_rows(train, corpus.source)
    insist_on_rows(kept, corpus.source)
    collate = Collate(tokenizer, recipe.task, recipe.packing, recipe.masked)
    return Material(corpus, tokenizer, labels, train, kept, collate)


def built(recipe: Recipe, source: Source, material: Material, note: Note = silent) -> Any:
    """The model as training begins with it: the same for the same seed."""
    set_seed(recipe.seed)
    model = build(source, recipe, material.tokenizer, material.labels, note)
    insist_on_checkpointing(model, recipe)
    if recipe.packing == "apart":
        insist_on_passages_apart(model, len(material.tokenizer))
    return model


def compiled(recipe: Recipe, model: Any) -> Any:
    """The model with its layers compiled, where that is asked for; the whole of it is compiled by Trainer.

    To be called after `measured`: what once ran while operations were counted would never be compiled.
    """
    chosen = compiling(recipe.compile)
    if chosen.scope == "regional":
        compile_layers(model, chosen)
    return model


def _insist_on_the_same_text(folder: RunFolder, material: Material) -> None:
    before = folder.found().get("data", {}).get("digest")
    if before is not None and before != material.corpus.digest:
        what = f"{material.corpus.source} is not what the run began with"
        raise PatchgenError("PG817", Location(str(folder.path)), what, "give it the same text, or begin a new run")


def _insist_on_room(recipe: Recipe, source: Source, material: Material, folder: RunFolder, device: str) -> None:
    """Refuse what no batch makes fit: weights and gradients in memory, checkpoints on the disk."""
    if source.checkpoint:  # its size is that of its files, which are there
        return
    parameters = parameters_of(source, recipe, material.tokenizer, material.labels)
    needed = parameters * WEIGHT * (1 if recipe.lora else 2)
    if needed > (free := free_memory(device)):
        what = f"{parameters:,} parameters take {gib(needed)} with their gradients, and {gib(free)} are free"
        hint = "--tiny, --config num_hidden_layers=4 and such, or --lora on"
        raise PatchgenError("PG816", Location(recipe.model), what, hint)
    if not recipe.save_every or recipe.lora:
        return
    needed = parameters * WEIGHT * (1 + STATES) * (recipe.keep + 1)
    if needed > (free := shutil.disk_usage(folder.path).free):
        what = f"{recipe.keep} checkpoints, and one more while it is written, take {gib(needed)}; {gib(free)} are free"
        raise PatchgenError("PG910", Location(str(folder.path)), what, "another --output, or --save-every 0")


def _batch(recipe: Recipe, source: Source, material: Material, folder: RunFolder, device: str, watch: Watch) -> int:
    """Rows of a step: what is asked for, or what was found before, or the largest that fits."""
    step = _one_step(recipe, source, material, folder, device)
    if recipe.asked_batch is not None:
        insist_on_fit(material.train, recipe.asked_batch, step, device, recipe.memory)
        return recipe.asked_batch
    if before := folder.found().get("batch_size"):
        return int(before)
    found, tried = largest_batch(material.train, step, device, recipe.memory)
    told = ", ".join(f"{one.rows}: {gib(one.peak) if one.peak is not None else 'too much'}" for one in tried)
    watch.note(f"batch of {found} rows; peak memory by rows: {told}")
    return found


def _one_step(
    recipe: Recipe, source: Source, material: Material, folder: RunFolder, device: str
) -> Callable[[Sequence[Row], int], None]:
    """Makes one step of a model that is thrown away, as the recipe says, but not compiled."""
    plain = replace(recipe, compile="none", loader="", grad_accum=1)

    def step(rows: Sequence[Row], size: int) -> None:
        quiet = {"max_steps": 1, "save_strategy": "no", "eval_strategy": "no", "logging_strategy": "no"}
        arguments = arguments_of(plain, folder.path, device, size, **quiet)
        model = built(plain, source, material)
        trainer = Trainer(
            model=model,
            args=arguments,
            data_collator=material.collate,
            train_dataset=list(rows),
            processing_class=material.tokenizer,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()

    return step


def _start(folder: RunFolder, at: int | None, watch: Watch) -> Path | None:
    for unfinished in discard_unfinished(folder.path):
        watch.note(f"{unfinished.name} was being written when the run ended, and is removed")
    start = to_resume(folder.path, at)
    if start is None:
        watch.note("the run has no checkpoint yet: it begins anew")
    else:
        watch.note(f"goes on after step {step_of(start)}")
    return start


def _trainer(
    recipe: Recipe, material: Material, model: Any, folder: RunFolder, device: str, batch: int, watch: Watch
) -> tuple[Any, Meter]:
    arguments = arguments_of(recipe, folder.path, device, batch)
    meter = measured(recipe, material, model, folder, device, watch)
    trainer = Trainer(
        model=compiled(recipe, model),
        args=arguments,
        data_collator=material.collate,
        train_dataset=material.train,
        eval_dataset=material.kept,
        processing_class=material.tokenizer,
        compute_metrics=accuracy if recipe.task == "classification" else None,
        callbacks=[Sealing(), meter],
    )
    trainer.remove_callback(PrinterCallback)  # it prints; the meter tells
    return trainer, meter


def measured(recipe: Recipe, material: Material, model: Any, folder: RunFolder, device: str, watch: Watch) -> Meter:
    """What will measure the run, after what a token costs and what the device can do is known."""
    model.to(device)
    per_token = operations_of_a_token(model, material.collate(material.train[:SAMPLE]))
    return Meter(folder, watch, device, per_token, operations_a_second(device, recipe.precision))


def _insist_on_optimizer(recipe: Recipe, folder: RunFolder, device: str) -> None:
    """PG814 where Trainer cannot make the optimizer here: some are of packages of their own."""
    try:
        Trainer.get_optimizer_cls_and_kwargs(arguments_of(recipe, folder.path, device, 1))
    except (ImportError, ValueError) as error:
        what = f"Trainer cannot make it: {' '.join(str(error).split())}"
        raise PatchgenError("PG814", Location(f"--optim {recipe.optim}"), what) from error


def accuracy(predicted: Any) -> dict[str, float]:
    """The share of passages whose label is found."""
    logits = predicted.predictions[0] if isinstance(predicted.predictions, tuple) else predicted.predictions
    return {"accuracy": float(numpy.mean(logits.argmax(-1) == predicted.label_ids))}


def write_down(
    folder: RunFolder,
    recipe: Recipe,
    source: Source,
    material: Material,
    model: Any,
    device: str,
    batch: int,
    meter: Meter,
) -> None:
    """What was found, and what runs it: one attempt more."""
    parameters = list(model.parameters())
    attempts = [*folder.found().get("attempts", []), description(device)]
    told = {
        "model": f"{source.model_class.__module__}.{source.model_class.__name__}",
        "parameters": sum(parameter.numel() for parameter in parameters),
        "trained_parameters": sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        "data": {
            "source": material.corpus.source,
            "digest": material.corpus.digest,
            "passages": [len(material.corpus.train), len(material.corpus.kept)],
            "rows": [len(material.train), len(material.kept)],
            "labels": list(material.labels),
        },
        "vocabulary": len(material.tokenizer),
        "batch_size": batch,
        "seed": recipe.seed,
        "operations_per_token": meter.per_token,
        "operations_per_second_of_the_device": meter.peak,
        "configuration": model.config.to_diff_dict(),
        "attempts": attempts,
    }
    folder.write(FOUND, told)


def _ended(trainer: Any, meter: Meter, folder: RunFolder, material: Material, resumed_from: int) -> Ended:
    history = trainer.state.log_history
    evaluated: dict[str, Any] = next((entry for entry in reversed(history) if "eval_loss" in entry), {})
    last = evaluated if evaluated.get("step") == trainer.state.global_step else trainer.evaluate()
    logged = [entry["loss"] for entry in history if "loss" in entry]
    figures = {
        "steps": trainer.state.global_step,
        "epochs": round(trainer.state.epoch or 0.0, 3),
        "loss": logged[-1] if logged else math.nan,
        **{name: last[name] for name in ("eval_loss", "eval_accuracy") if name in last},
        "tokens": trainer.state.num_input_tokens_seen,
        "tokens_a_second": round(meter.tokens_a_second, 1),
        "mfu": round(meter.utilisation(meter.tokens_a_second), 5),
        "peak_bytes": peak_memory(meter.device),
    }
    trainer.model.save_pretrained(folder.model)
    material.tokenizer.save_pretrained(folder.model)
    draw(folder)
    folder.write(RESULT, figures)
    return Ended(folder.path, figures, resumed_from)


@contextlib.contextmanager
def _failures(folder: RunFolder) -> Iterator[None]:
    """What stops a run in its middle, said with where to go on.  What was being written is removed, nothing else."""
    collecting = gc.isenabled()
    gc.enable()  # the command line has it off, and a run is long
    try:
        with out_of_memory_is_an_error():
            yield
    except NoMemory as error:
        _leave_whole(folder)
        told = " ".join(str(error).split("\n")[0].split())
        hint = f"{too_large_hint(2)}; {_where(folder)}"
        raise PatchgenError(
            "PG816", Location(str(folder.path)), f"there is not enough memory: {told}", hint
        ) from error
    except PatchgenError:
        raise
    except Exception as error:
        if not _is_of_the_disk(error):
            raise
        _leave_whole(folder)
        told = " ".join(str(error).split())
        hint = f"free some space; {_where(folder)}"
        raise PatchgenError("PG910", Location(str(folder.path)), f"cannot be written: {told}", hint) from error
    finally:
        if not collecting:
            gc.disable()


def _is_of_the_disk(error: BaseException | None) -> bool:
    """Whether it, or what it came from, is that nothing more can be written."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        if any(sign in str(error) for sign in FULL_TOLD):
            return True
        error = error.__cause__ or error.__context__
    return False


def _leave_whole(folder: RunFolder) -> None:
    with contextlib.suppress(OSError):
        discard_unfinished(folder.path)


def _where(folder: RunFolder) -> str:
    found = checkpoints(folder.path)
    if not found:
        return "the run has no checkpoint yet"
    return f"patchgen train --resume {os.path.relpath(folder.path)} goes on after step {step_of(found[-1])}"


def interrupted(folder: RunFolder) -> str:
    """What is said of a run that a person ended."""
    return _where(folder)
