"""The switches of `patchgen train`, one for each field of a recipe, with its default."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import click

from patchgen.training import precision
from patchgen.training.loop.recipe import PACKINGS, TASKS, Recipe

_Command = TypeVar("_Command", bound=Callable[..., Any])
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Recipe)}
# What help calls the value of a number, in place of click's `INTEGER RANGE`.
_LETTERS = {click.IntRange: "N", click.FloatRange: "X"}


def _switch(name: str, help: str, *, field: str = "", **rest: Any) -> Callable[[Any], Any]:
    """The option that sets `field` of a recipe, which is `name` by default."""
    field = field or name.removeprefix("--").replace("-", "_")
    default = _DEFAULTS[field]
    if rest.get("is_flag") or rest.get("multiple"):
        return click.option(name, field, help=help, **rest)
    if "type" not in rest and not isinstance(default, str):
        rest["type"] = type(default)
    for ranges, letter in _LETTERS.items():
        if isinstance(rest.get("type"), ranges):
            rest.setdefault("metavar", letter)
    return click.option(
        name, field, default=default, show_default=default not in ("", 0, 0.0), help=help, **rest
    )


_SWITCHES: tuple[Callable[[Any], Any], ...] = (
    _switch("--task", "What the model learns.", type=click.Choice(TASKS)),
    _switch(
        "--data",
        "Text files, folders of them, a table or a data set; default: the one that patchgen ships.",
        multiple=True,
        metavar="SOURCE",
    ),
    _switch("--text-column", "The column of a data set that has the texts.", metavar="NAME"),
    _switch(
        "--label-column",
        "The column that has the labels, for classification; a text file's label is its name.",
        metavar="NAME",
    ),
    _switch(
        "--from",
        "Start from this checkpoint: a folder, or an id of the Hub.",
        field="start",
        metavar="SRC",
    ),
    _switch("--tiny", "A small model that a CPU trains in seconds.", is_flag=True),
    _switch(
        "--config", "Change the configuration; may be repeated.", multiple=True, metavar="KEY=VALUE"
    ),
    _switch(
        "--vocabulary",
        "Size of the vocabulary when a tokenizer is trained on the text.",
        type=click.IntRange(1),
    ),
    _switch("--length", "Tokens of a row.", type=click.IntRange(1)),
    _switch(
        "--packing",
        "Put several passages into a row: isolated, so that none sees another, or concatenated.",
        type=click.Choice(PACKINGS),
    ),
    _switch(
        "--masked",
        "Share of the tokens that masked-lm hides.",
        type=click.FloatRange(0, 1),
    ),
    _switch(
        "--epochs",
        "How many times to go through the data.",
        type=click.FloatRange(0),
    ),
    _switch("--steps", "How many steps; replaces --epochs.", type=click.IntRange(0)),
    _switch(
        "--batch-size",
        "Rows of a batch, or auto: the largest power of two that fits.",
        metavar="N|auto",
    ),
    _switch(
        "--memory",
        "GiB that --batch-size auto may use; default: what is free.",
        type=click.FloatRange(0),
        metavar="GIB",
    ),
    _switch(
        "--grad-accum",
        "Batches whose gradients are summed for one step.",
        type=click.IntRange(1),
    ),
    _switch(
        "--learning-rate",
        "The learning rate at its peak.",
        type=click.FloatRange(0),
    ),
    _switch(
        "--schedule",
        "How the learning rate changes: linear, cosine, constant, or another schedule of Trainer.",
        metavar="NAME",
    ),
    _switch(
        "--warmup",
        "Steps until the learning rate is at its peak; below 1: a share of all steps.",
        type=float,
        metavar="X",
    ),
    _switch(
        "--weight-decay",
        "Weight decay of the optimizer.",
        type=click.FloatRange(0),
    ),
    _switch(
        "--optim",
        "foreach, fused, adafactor, 8bit, sgd, or another optimizer of Trainer.",
        metavar="NAME",
    ),
    _switch(
        "--precision",
        "amp: autocast over float32 weights; pure: weights and states too; "
        "fsdp-mixed: only what --engine gathers.",
        type=click.Choice(precision.NAMES),
    ),
    _switch(
        "--checkpoint",
        "What the backward pass computes again: none, full, selective; every=K: each K-th layer.",
        metavar="POLICY",
    ),
    _switch(
        "--compile",
        "What torch.compile compiles: none, whole (the model) or regional (each layer); "
        "mode= and backend= are its own.",
        metavar="SCOPE",
    ),
    _switch(
        "--loader",
        "How batches are loaded: workers=N, prefetch=N, pinned or pageable memory.",
        metavar="HOW",
    ),
    _switch(
        "--lora",
        "Train LoRA adapters only: on, or rank=, alpha=, dropout=, targets=A+B.",
        metavar="HOW",
    ),
    _switch("--seed", "Seed of weights, order and dropout.", type=click.IntRange(0)),
    _switch(
        "--deterministic", "Use only operations that give the same bits in every run.", is_flag=True
    ),
    _switch("--device", "Where the model runs.", type=click.Choice(["auto", "cpu", "cuda"])),
    _switch(
        "--engine",
        "How processes share the work: ddp, fsdp2, tp, ep, tp+ep, fsdp2+tp, zero1-3.",
        metavar="NAME",
    ),
    _switch(
        "--log-every",
        "Log each X-th step; below 1: a share of all steps.",
        type=click.FloatRange(0),
    ),
    _switch(
        "--eval-every",
        "Evaluate at each X-th step; below 1: a share of all steps; 0: at the end.",
        type=click.FloatRange(0),
    ),
    _switch(
        "--save-every",
        "Save a checkpoint at each X-th step; below 1: a share of all steps; 0: at the end.",
        type=click.FloatRange(0),
    ),
    _switch("--keep", "How many checkpoints to keep.", type=click.IntRange(2)),
)


def switches(command: _Command) -> _Command:
    """Add every switch, in the order above."""
    for option in reversed(_SWITCHES):
        command = option(command)
    return command
