"""`patchgen adopt`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import FOLDER, download, text_or_json


@click.command()
@click.argument("file", metavar="FORK.py", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--parent", metavar="MODEL", help="The model that it was copied from; default: searched for."
)
@click.option(
    "--package-root",
    type=FOLDER,
    metavar="DIR",
    help="An unpacked release of transformers, or a folder of releases and wheels; "
    "default: the installed release.",
)
@click.option(
    "--release",
    "--releases",
    "asked",
    multiple=True,
    metavar="X|A..B",
    help="Releases to compare with: numbers, folders or wheels; may be repeated.",
)
@download
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write the declaration into DIR.",
)
@click.option(
    "--page",
    is_flag=True,
    help="With --write: also write a page that shows the declaration beside its parent.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Write even what is mostly a rewrite; replace an existing file.",
)
@click.option(
    "--apply",
    metavar="CODE",
    help="For a file that patches transformers: what applies it, such as 'replace(fast=True)'.",
)
@text_or_json
def adopt(file: str, **rest: Any) -> int:
    """Write the changes in a copied modeling file as a modular file.

    FORK.py is a copy of a modeling file of transformers that somebody changed by hand, or a file
    that assigns functions and classes of its own to those of transformers.  patchgen
    generates the model again from the modular file, and compares it with the fork.  Exit code 0:
    every class and function is equal; 1: some differ.

    \b
    Example:
      patchgen adopt modeling_my_llama.py --write modular/my_llama
    """
    from patchgen.cli.adopt import adopt_fork

    return adopt_fork(file, **rest)
