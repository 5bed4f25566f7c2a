"""`patchgen page`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import package_root


@click.command()
@click.argument("names", nargs=-1, metavar="[VARIANT|PATH]...")
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False),
    metavar="DIR",
    required=True,
    help="Write the pages into DIR.",
)
@click.option(
    "--report",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Show what `patchgen verify --report DIR` found; default: docs/parity, if it is there.",
)
@click.option(
    "--survive",
    "survey",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE.json",
    help="Show what `patchgen survive --output-format json` printed into FILE.json.",
)
@package_root
def page(names: tuple[str, ...], folder: str, **rest: Any) -> int:
    """Show variants beside their parents, with their lines linked.

    Writes one HTML file for each variant, and index.html.  Each file works alone, and without a
    network.  The default is every variant of the project.  Exit code 1: a modular file gives no
    output, or an output is not up to date.

    \b
    Example:
      patchgen page mpnet_sdpa_checkpoint --out pages
    """
    from patchgen.cli.variant_pages import write_pages

    return write_pages(names, folder, **rest)
