"""`patchgen retire`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import FOLDER, text_or_json


@click.command()
@click.argument("names", nargs=-1, metavar="[VARIANT|PATH]...")
@click.option(
    "--release",
    "asked",
    metavar="X",
    help="The release to compare with: a number, a folder or a wheel; default: the newest here.",
)
@click.option(
    "--releases-dir",
    type=FOLDER,
    metavar="DIR",
    help="A folder of wheels or unpacked releases, beside those of the cache.",
)
@click.option("--download", is_flag=True, help="Let pip download the release into the cache.")
@text_or_json
def retire(names: tuple[str, ...], **rest: Any) -> int:
    """Name your changes that transformers has by now.

    You can delete them.  These are edits whose result is the parent's method now, overrides and
    attributes that equal the parent's, and base classes that the parent has.  Exit code 1: there
    are some.

    \b
    Example:
      patchgen retire --release 5.23.0
    """
    from patchgen.cli.retire import retire as run

    return run(names, **rest)
