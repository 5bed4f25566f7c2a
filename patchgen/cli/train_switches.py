"""The switches of `patchgen train`, with the defaults of a recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import click

from patchgen.training import precision
from patchgen.training.loop.recipe import PACKINGS, TASKS, Recipe

_Command = TypeVar("_Command", bound=Callable[..., Any])
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Recipe)}


def _switch(name: str, help: str, *, field: str = "", **rest: Any) -> Callable[[Any], Any]:
    """An option with the default that the recipe has, shown where there is one."""
    field = field or name.removeprefix("--").replace("-", "_")
    default = _DEFAULTS[field]
    if rest.get("is_flag") or rest.get("multiple"):
        return click.option(name, field, help=help, **rest)
    if "type" not in rest and not isinstance(default, str):
        rest["type"] = type(default)
    return click.option(
        name, field, default=default, show_default=default not in ("", 0, 0.0), help=help, **rest
    )


_GROUPS: tuple[Callable[[Any], Any], ...] = (
    _switch("--task", "What is learned.", type=click.Choice(TASKS)),
    _switch(
        "--data",
        "Text files, folders of them, a table, or a data set; by default the shipped text.",
        multiple=True,
    ),
    _switch("--text-column", "Of a data set."),
    _switch(
        "--label-column",
        "Of a data set, in classification; of text files the label is the file's name.",
    ),
    _switch(
        "--from",
        "A checkpoint to begin with: a folder, or an id of the Hub.",
        field="start",
        metavar="SRC",
    ),
    _switch("--tiny", "Sizes that a CPU trains in seconds.", is_flag=True),
    _switch(
        "--config", "Change the configuration; may be repeated.", multiple=True, metavar="KEY=VALUE"
    ),
    _switch(
        "--vocabulary", "Tokens of a tokenizer that is trained on the text.", type=click.IntRange(1)
    ),
    _switch("--length", "Tokens of a row.", type=click.IntRange(1)),
    _switch(
        "--packing",
        "Several passages in a row: kept apart, or one text.",
        type=click.Choice(PACKINGS),
    ),
    _switch("--masked", "Share of the tokens that masked-lm hides.", type=click.FloatRange(0, 1)),
    _switch("--epochs", "How often the text is read.", type=click.FloatRange(0)),
    _switch("--steps", "How many steps, in place of epochs.", type=click.IntRange(0)),
    _switch(
        "--batch-size",
        "Rows of a step, or auto: the largest power of two that fits.",
        metavar="N|auto",
    ),
    _switch(
        "--memory", "GiB that auto may fill; by default what is free.", type=click.FloatRange(0)
    ),
    _switch("--grad-accum", "Batches whose gradients make one step.", type=click.IntRange(1)),
    _switch("--learning-rate", "At its highest.", type=click.FloatRange(0)),
    _switch(
        "--schedule", "Of the learning rate: linear, cosine, constant, ... as Trainer has them."
    ),
    _switch(
        "--warmup",
        "Steps until the learning rate is at its highest; below 1 a share of all.",
        type=float,
    ),
    _switch("--weight-decay", "Of the optimizer.", type=click.FloatRange(0)),
    _switch(
        "--optim",
        "foreach, fused, adafactor, 8bit, sgd, or another that Trainer has.",
        metavar="NAME",
    ),
    _switch(
        "--precision",
        "amp: autocast over float32 weights; pure: weights and states too; fsdp-mixed: what --engine gathers.",
        type=click.Choice(precision.NAMES),
    ),
    _switch(
        "--checkpoint", "What is computed again: none, full, selective; every=K.", metavar="POLICY"
    ),
    _switch("--compile", "none, or whole or regional, with mode= and backend=.", metavar="SCOPE"),
    _switch("--loader", "workers=N, prefetch=N, pinned or pageable.", metavar="HOW"),
    _switch("--lora", "on, or rank=, alpha=, dropout=, targets=A+B.", metavar="HOW"),
    _switch("--seed", "Of weights, order and dropout.", type=click.IntRange(0)),
    _switch("--deterministic", "Only operations that give the same bits each time.", is_flag=True),
    _switch("--device", "Where it runs.", type=click.Choice(["auto", "cpu", "cuda"])),
    _switch(
        "--engine",
        "What several processes share: ddp, fsdp2, tp, ep, tp+ep, fsdp2+tp, zero1-3.",
        metavar="NAME",
    ),
    _switch("--log-every", "Steps; below 1 a share of all.", type=click.FloatRange(0)),
    _switch(
        "--eval-every", "Steps; below 1 a share of all; 0: at the end.", type=click.FloatRange(0)
    ),
    _switch(
        "--save-every", "Steps; below 1 a share of all; 0: at the end.", type=click.FloatRange(0)
    ),
    _switch("--keep", "Checkpoints that are kept.", type=click.IntRange(2)),
)


def switches(command: _Command) -> _Command:
    """Every switch that a recipe has, in the order of its groups."""
    for option in reversed(_GROUPS):
        command = option(command)
    return command
