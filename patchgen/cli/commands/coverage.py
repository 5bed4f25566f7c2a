"""`patchgen coverage`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import FOLDER, limits, package_root


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option(
    "--part", "parts", multiple=True, metavar="PART", help="Only this part; may be repeated."
)
@click.option(
    "--numeric",
    is_flag=True,
    help="Convert, build, verify and plant errors, in processes of their own.",
)
@click.option("--again", is_flag=True, help="Run again what failed or could not be built.")
@click.option("--most", type=click.IntRange(0), metavar="N", help="Run at most N numerically.")
@click.option(
    "--folder",
    type=FOLDER,
    metavar="DIR",
    help="Where coverage.json and coverage.md are; default: docs.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Processes; default: one for each core.",
)
@limits("a trial", seconds=180)
@package_root
def coverage(models: tuple[str, ...], **rest: Any) -> int:
    """Write a table that says which part fits which model.

    MODEL is a modeling module of transformers; the default is all of them.  The same command
    continues an interrupted run.  Exit code 1: something failed in a model that this run looked at.

    \b
    Example:
      patchgen coverage bert gpt2 --part loss --numeric
    """
    from patchgen.cli.coverage import coverage as run

    return run(models, **rest)
