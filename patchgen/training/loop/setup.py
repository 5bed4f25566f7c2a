"""Prepares the data and the initial model of a run.  The same recipe gives the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import set_seed

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.corpus import Corpus, read_corpus, require_labels
from patchgen.training.loop.folder import RunFolder
from patchgen.training.loop.layers import check_checkpointing, compile_layers
from patchgen.training.loop.models import Note, Source, build, ignore_note
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.rows import (
    Collate,
    Row,
    check_isolation,
    check_rows,
    make_rows,
)
from patchgen.training.loop.switches import compiling
from patchgen.training.loop.vocabulary import load_tokenizer, train_tokenizer


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The rows of a run, and what made them."""

    corpus: Corpus
    tokenizer: Any
    labels: tuple[str, ...]
    train: list[Row]
    kept: list[Row]
    collate: Collate


def prepare_data(recipe: Recipe, source: Source, folder: RunFolder | None = None) -> TrainingData:
    """Read the text, and make tokens and rows.

    A run that has a tokenizer keeps it; a new tokenizer is saved in the folder of the run.
    """
    corpus = read_corpus(recipe)
    labels = tuple(require_labels(corpus)) if recipe.task == "classification" else ()
    before = (
        load_tokenizer(folder.tokenizer)
        if folder is not None and folder.tokenizer.is_dir()
        else None
    )
    tokenizer = before or (load_tokenizer(source.checkpoint) if source.checkpoint else None)
    if tokenizer is None:
        tokenizer = train_tokenizer((passage.text for passage in corpus.train), recipe.vocabulary)
    if recipe.task == "masked-lm" and tokenizer.mask_token_id is None:
        raise PatchgenError("PG812", Location(source.checkpoint), "its tokenizer has no mask")
    if before is None and folder is not None and folder.writes:
        tokenizer.save_pretrained(folder.tokenizer)
    train, kept = (
        make_rows(part, tokenizer, recipe, labels) for part in (corpus.train, corpus.kept)
    )
    check_rows(train, corpus.source)
    check_rows(kept, corpus.source)
    collate = Collate(tokenizer, recipe.task, recipe.packing, recipe.masked)
    return TrainingData(corpus, tokenizer, labels, train, kept, collate)


def build_seeded_model(
    recipe: Recipe, source: Source, data: TrainingData, note: Note = ignore_note
) -> Any:
    """Return the model with its initial weights, which depend on the seed only."""
    set_seed(recipe.seed)
    model = build(source, recipe, data.tokenizer, data.labels, note)
    check_checkpointing(model, recipe)
    if recipe.packing == "isolated":
        check_isolation(model, len(data.tokenizer))
    return model


def compile_if_asked(recipe: Recipe, model: Any) -> Any:
    """Return the model, its layers compiled where the recipe asks for that.

    Trainer compiles whole models.  Call it after `make_meter`: a model that has run while FLOPs
    were counted would not be compiled any more.
    """
    chosen = compiling(recipe.compile)
    if chosen.scope == "regional":
        compile_layers(model, chosen)
    return model
