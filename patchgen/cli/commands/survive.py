"""`patchgen survive`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import FOLDER, download, text_or_json


@click.command()
@click.argument("names", nargs=-1, metavar="[VARIANT|PATH]...")
@click.option(
    "--releases",
    "--release",
    "asked",
    multiple=True,
    metavar="X|A..B",
    help="Numbers, ranges, folders or wheels; may be repeated; default: all that are here.",
)
@click.option(
    "--releases-dir",
    type=FOLDER,
    metavar="DIR",
    help="A folder of wheels or unpacked releases, beside those of the cache.",
)
@download
@text_or_json
def survive(names: tuple[str, ...], **rest: Any) -> int:
    """Say on which releases of transformers a variant converts.

    Where it does not convert, patchgen names the change of transformers that broke it.  Results are
    kept in the cache, so the same command continues an interrupted run.  Exit code 1: a variant
    does not convert on one of the releases, or a release that you named is not here.

    \b
    Example:
      patchgen survive llama_loss --releases 5.20..5.23 --releases-dir wheels
    """
    from patchgen.cli.survive import survive as run

    return run(names, **rest)
