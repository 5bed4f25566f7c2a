"""With what does training begin: rows of a text and a model, the same for the same recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import set_seed

from patchgen.errors import Location, PatchgenError
from patchgen.training.loop.corpus import Corpus, insist_on_labels, read_corpus
from patchgen.training.loop.folder import RunFolder
from patchgen.training.loop.layers import compile_layers, insist_on_checkpointing
from patchgen.training.loop.models import Note, Source, build, silent
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.rows import (
    Collate,
    Row,
    insist_on_passages_apart,
    insist_on_rows,
    rows_of,
)
from patchgen.training.loop.switches import compiling
from patchgen.training.loop.vocabulary import loaded_tokenizer, trained_tokenizer


@dataclass(frozen=True, slots=True)
class Material:
    """What is trained on, and what reads it."""

    corpus: Corpus
    tokenizer: Any
    labels: tuple[str, ...]
    train: list[Row]
    kept: list[Row]
    collate: Collate


def material_of(recipe: Recipe, source: Source, folder: RunFolder | None = None) -> Material:
    """Text, tokens and rows.  The tokenizer is the run's own where it has one, and is written there where not."""
    corpus = read_corpus(recipe)
    labels = tuple(insist_on_labels(corpus)) if recipe.task == "classification" else ()
    before = (
        loaded_tokenizer(folder.tokenizer)
        if folder is not None and folder.tokenizer.is_dir()
        else None
    )
    tokenizer = before or (loaded_tokenizer(source.checkpoint) if source.checkpoint else None)
    if tokenizer is None:
        tokenizer = trained_tokenizer((passage.text for passage in corpus.train), recipe.vocabulary)
    if recipe.task == "masked-lm" and tokenizer.mask_token_id is None:
        raise PatchgenError("PG812", Location(source.checkpoint), "its tokenizer has no mask")
    if before is None and folder is not None and folder.writes:
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
