"""`patchgen train`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.commands.train_switches import switches
from patchgen.cli.requirements import needs_models


@click.command()
@click.argument("model", required=False)
@switches
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="The run's folder; default: a new one in runs/.",
)
@click.option(
    "--resume",
    metavar="RUN",
    type=click.Path(file_okay=False),
    help="Continue a run with the switches that it began with.",
)
@click.option(
    "--at",
    type=click.IntRange(0),
    metavar="STEP",
    help="The checkpoint to continue from; default: the last.",
)
@click.option(
    "--search",
    metavar="WHAT",
    help="Search for settings: loss, throughput or both, with trials= and steps=.",
)
@needs_models("train")
def train(model: str | None, **rest: Any) -> int:
    """Train a variant, another model or a checkpoint.

    MODEL is a variant, a model type of transformers, or a checkpoint.  The Trainer of transformers
    trains it, on a text that comes with patchgen or on your own.  The run's folder gets the
    configuration, the releases, the figures, a chart of the loss, checkpoints and the model.  Needs
    pip install 'patchgen[train]'.

    \b
    Example:
      patchgen train llama_loss --tiny --steps 100
      patchgen train --resume runs/RUN
    """
    from patchgen.cli.train import train as run

    return run(model, **rest)
