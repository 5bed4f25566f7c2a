"""`patchgen memory`: predict the memory of a training step, measure it, print and draw it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli import terminal
from patchgen.cli.options import FROM_1, NewPath, needs_models, option, require, text_or_json
from patchgen.cli.report import print_json
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training import precision as precisions

if TYPE_CHECKING:
    from patchgen.training.memory.figures import Figures
    from patchgen.training.memory.step import Setup, StepTrace
    from patchgen.training.memory.target import Target
    from patchgen.training.parallel.engine import Engine


@click.command()
@click.argument("name", metavar="MODEL")
@option("--head CLASS", "The class, or its end; default: a language-model head, if any.")
@option("--config SIZE|FILE", "A published size, such as llama-1b, or a config.json.")
@option("--tiny", "A configuration that any machine can run.")
@option("--set changes NAME=VALUE", "Change the configuration; may be repeated.", multiple=True)
@option("--batch N", "Rows of a batch.", type=FROM_1, default=1)
@option("--length N", "Tokens of a row; default: 512, or all that fit.", type=FROM_1)
@option(
    "--precision",
    "As in `train`; amp: autocast over float32 weights; pure: weights and states too.",
    type=click.Choice(precisions.NAMES),
    default="fp32",
)
@option("--optimizer NAME", "adamw, sgd, momentum, adafactor, ...", default="adamw")
@option("--checkpoint POLICY", "What is computed again: full, selective.", default="none")
@option("--every K", "Checkpoint each K-th layer.", type=FROM_1, default=1)
@option("--accumulate N", "Batches that are summed for one step.", type=FROM_1, default=1)
@option("--attention NAME", "eager, sdpa, ...; default: what the model chooses.", default="")
@option(
    "--device",
    "Whose kernels run; default: cuda with --card or if there is one, else cpu.",
    type=click.Choice(["cpu", "cuda"]),
)
@option("--engine ENGINE", "Show one rank of several, by its share of the model: fsdp2, ...")
@option("--ranks N", "How many ranks the engine has.", type=int)
@option("--card SIZE", "Print the largest batch that fits: --card 24GB.")
@option("--measure", "Also run the step and measure it.")
@option("--predict/--no-predict", "Predict, or only measure.", default=True, show_default=False)
@option("--figure FILE", "Draw the step: .svg or .png.", type=NewPath(dir_okay=False))
@text_or_json
@needs_models()
def memory(
    name: str,
    *,
    head: str | None,
    config: str | None,
    tiny: bool,
    changes: tuple[str, ...],
    card: str | None,
    measure: bool,
    predict: bool,
    figure: str | None,
    form: str,
    device: str | None,
    engine: str | None,
    ranks: int | None,
    length: int | None,
    **setup: Any,
) -> int:
    """MODEL is a variant, a model type of transformers or a published size, such as llama-8b.  It
    runs on shapes only, so it need not fit on this machine.

    \b
    Example:
      patchgen memory llama-8b --precision pure-bf16 --checkpoint full --card 80GB
    """
    if figure:
        require("matplotlib", "--figure", "charts")
    from patchgen.training.memory.figures import spread
    from patchgen.training.memory.fits import check_device, largest_batch, parse_size
    from patchgen.training.memory.report import Report, as_data, as_text, draw
    from patchgen.training.memory.step import Setup, predict_step
    from patchgen.training.memory.target import Choice, default_length, find_target
    from patchgen.verifying.report import find_best_device

    if not predict and (not measure or card or figure):
        what = "--no-predict needs --measure: --card and --figure show the prediction"
        raise click.UsageError(what)
    if measure and engine:
        raise click.UsageError("--measure is of one process: leave --engine out")
    try:
        target = find_target(name, Choice(head, config, tiny, tuple(map(_change, changes))))
        device = device or ("cuda" if card else find_best_device())
        if measure:
            check_device(device)
        tokens = length or default_length(target.config)
        step = Setup(**setup, length=tokens, device=device, engine=_engine(engine, ranks))
        room = parse_size(card) if card else 0
        most = largest_batch(target, step, room) if room else 0
        trace = spread(predict_step(target, step)) if predict else None
        measured = _measured(target, step, trace) if measure else None
    except ValueError as error:
        # transformers and torch name the value that they refuse.
        raise PatchgenError("PG825", Location(name), " ".join(str(error).split())) from error
    report = Report(name, target.model_class.__name__, step, trace, measured, room, most)
    if form == "json":
        print_json("memory", as_data(report))
    else:
        terminal.write(as_text(report))
    if figure and trace is not None:
        draw(trace, Path(figure), room)
    return 0


def _engine(name: str | None, ranks: int | None) -> Engine:
    from patchgen.training.parallel.engine import Engine, parse_engine

    if (name is None) != (ranks is None):
        raise click.UsageError("--engine and --ranks need each other: --engine fsdp2 --ranks 8")
    return parse_engine(name, {"WORLD_SIZE": str(ranks)}) if name is not None else Engine()


def _measured(target: Target, step: Setup, trace: StepTrace | None) -> Figures:
    from patchgen.training.memory.figures import summarize
    from patchgen.training.memory.fits import check_free_memory
    from patchgen.training.memory.measure import measure_step

    if trace is not None:
        check_free_memory(target, summarize(trace).peak, step.device)
    return measure_step(target, step)


def _change(text: str) -> tuple[str, Any]:
    """Split NAME=VALUE; the value is read as JSON if it is JSON, else as text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"--set takes NAME=VALUE, not {text}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
