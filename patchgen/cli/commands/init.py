"""`patchgen init`."""

from __future__ import annotations

import click


@click.command()
@click.argument(
    "folder", metavar="[DIR]", default=".", type=click.Path(file_okay=False, resolve_path=True)
)
def init(folder: str) -> int:
    """Make DIR, by default the current folder, a patchgen project.

    Adds a commented [tool.patchgen] to pyproject.toml, and makes the folders, a pre-commit hook and
    a GitHub workflow that runs `patchgen check`.  Files that exist are kept; a pyproject.toml
    without [tool.patchgen] gets it at its end.

    \b
    Example:
      patchgen init my-models
    """
    from patchgen.cli.init import init_project

    return init_project(folder)
