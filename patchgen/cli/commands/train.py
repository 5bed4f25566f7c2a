"""`patchgen train`: read the arguments, join the processes of a run, print its result."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli import terminal
from patchgen.cli.options import needs_models, option
from patchgen.cli.report import exit_code, table
from patchgen.syntax.errors import Location, PatchgenError, problems_of

if TYPE_CHECKING:
    from patchgen.training.parallel.engine import Engine

GIB = 2**30
TEMPLATES = {
    "steps": "{:.0f}",
    "loss": "{:.4f}",
    "eval_loss": "{:.4f}",
    "eval_accuracy": "{:.3f}",
    "tokens_a_second": "{:,.0f}",
    "mfu": "{:.1%}",
    "peak_memory": "{:.2f} GiB",
}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("model")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@option("--arguments lists", "List every argument, with MODEL `all`.")
@needs_models("train")
def train(model: str, arguments: tuple[str, ...], lists: bool) -> int:
    """transformers' Trainer trains it.  MODEL is a variant, a model type of transformers, a
    checkpoint, or the arguments.json of a run.  ARGUMENTS are any of Trainer's TrainingArguments,
    and those of patchgen: --data, --task, --length, --packing, --weights, --tokenizer, --tiny,
    --config, --dtype, --lora_rank, --muon, --engine, --search and more.  Needs patchgen's
    extra "train".

    \b
    Example:
      patchgen train llama_loss --tiny --max_steps 100
      patchgen train llama_loss --weights meta-llama/Llama-3.2-1B --data chats.jsonl --bf16
      patchgen train runs/llama_loss/arguments.json --resume_from_checkpoint last
      patchgen train all --arguments
    """
    from patchgen.training.loop.options import make_parser, output_of, parse
    from patchgen.training.loop.run import resume_hint
    from patchgen.training.loop.run import train as run
    from patchgen.training.parallel.engine import parse_engine

    if lists:
        terminal.say(make_parser().format_help())
        return 0
    options, given = parse((model, *arguments))
    engine = parse_engine(options.engine, os.environ)
    with _together(engine):
        try:
            ended = run(options, given, engine)
        except KeyboardInterrupt:
            if engine.is_first:
                terminal.say(resume_hint(output_of(options, given)), err=True)
            raise
    if engine.is_first:
        show = _show_trials if options.search else _show
        show(ended)
        terminal.say(f"run  {output_of(options, given)}")
    return 0


@contextmanager
def _together(engine: Engine) -> Iterator[None]:
    """Run as one of the processes; an error that all of them have is printed by the first."""
    from patchgen.training.parallel.process_group import (
        PeerLost,
        first_reports_same,
        ignore_termination,
        leave,
    )

    try:
        yield
    except PeerLost as error:
        raise PatchgenError("PG836", Location("patchgen train"), str(error)) from error
    except PatchgenError as error:
        ignore_termination(engine)
        if first_reports_same(engine, str(error)):
            raise SystemExit(exit_code(problems_of(error))) from error
        raise
    leave(engine)


def _show(figures: Mapping[str, Any]) -> None:
    figures = {**figures, "peak_memory": figures["peak_bytes"] / GIB}
    names = [name for name in TEMPLATES if name in figures]
    width = max(map(len, names))
    for name in names:
        text = TEMPLATES[name].format(figures[name])
        terminal.say(f"{name.replace('_', ' '):{width}}  {text}")


def _show_trials(tried: Mapping[str, Any]) -> None:
    objectives = tried["objectives"]
    trials = tried["trials"]
    # With two objectives, no single trial is the best: those of the Pareto front are.
    word = "front" if len(objectives) > 1 else "best"
    settings: list[str] = []
    rows = []
    for trial in trials:
        settings = list(trial["settings"])
        cells = [str(trial["number"])]
        cells += [f"{value:,.4g}" for value in trial["values"]]
        cells += [f"{value:.3g}" for value in trial["settings"].values()]
        cells.append(word if trial["best"] else "")
        rows.append(cells)
    terminal.write(table(("trial", *objectives, *settings, ""), rows))
