"""`patchgen bench`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import ABOVE_0
from patchgen.cli.requirements import needs_models


@click.command()
@click.argument("ids", nargs=-1, metavar="[CASE]...")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Only this entry or variant, and its baseline; may be repeated.",
)
@click.option(
    "--plan", "planned", is_flag=True, help="Only print what would run on --card, without a GPU."
)
@click.option("--card", default="h100", show_default=True, metavar="NAME", help="For --plan.")
@click.option("--tiny", is_flag=True, help="Tiny models on the CPU: checked, not timed.")
@click.option(
    "--folder",
    metavar="DIR",
    default="bench",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Where results and pages are.",
)
@click.option(
    "--seconds",
    type=ABOVE_0,
    metavar="S",
    default=450.0,
    show_default=True,
    help="Time for the whole run.",
)
@click.option("--again", is_flag=True, help="Measure what has a result already.")
@needs_models()
def bench(ids: tuple[str, ...], **rest: Any) -> int:
    """Time variants on this GPU beside their alternatives.

    Each CASE is sized so that its baseline fits the card; docs/benchmarks.md describes them, and
    the default is all.  The same command continues an interrupted run.  Exit code 1: an entry
    failed or computed something wrong.

    \b
    Example:
      patchgen bench --plan --card h200
      patchgen bench --tiny
      patchgen bench L1 B1 --seconds 500
    """
    from patchgen.cli.bench import bench as run

    return run(ids, **rest)
