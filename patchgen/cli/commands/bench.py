"""`patchgen bench`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import ABOVE_0
from patchgen.cli.requirements import needs_models

# Those of `training.bench.sets`, which `--help` need not import.
TABLES = ("matrix", "finetune", "pretrain", "memory")


@click.command()
@click.argument("ids", nargs=-1, metavar="[CASE]...")
@click.option(
    "--table",
    type=click.Choice(TABLES),
    default="matrix",
    show_default=True,
    help="The table whose cases run.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Only this entry or variant, and its baseline; may be repeated.",
)
@click.option(
    "--compiled",
    is_flag=True,
    help="Only compiled entries and their baselines: this fills torch's caches.",
)
@click.option(
    "--tiny",
    is_flag=True,
    help="Tiny models on the CPU, in about a minute: checked, not timed.",
)
@click.option("--device", metavar="NAME", help="Where models run; default: cuda.")
@click.option(
    "--folder",
    metavar="DIR",
    default="bench",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Where results and pages are.",
)
@click.option(
    "--seconds", type=ABOVE_0, metavar="S", help="Time for the whole run; 450 by default."
)
@click.option("--again", is_flag=True, help="Also run what has a result already.")
@click.option("--look", is_flag=True, help="Only print the machine and the attention that it runs.")
@needs_models()
def bench(ids: tuple[str, ...], **rest: Any) -> int:
    """Time variants on this GPU beside their alternatives.

    docs/benchmarks.md describes each CASE; the default is all of them.  The same command continues
    an interrupted run.  Exit code 1: an entry failed or computed something wrong.

    \b
    Example:
      patchgen bench --tiny
      patchgen bench --table finetune --seconds 900
    """
    from patchgen.cli.bench import bench as run

    return run(ids, **rest)
