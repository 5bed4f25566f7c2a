"""`patchgen rebase`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import FOLDER, download, text_or_json


@click.command()
@click.argument("paths", nargs=-1, metavar="[VARIANT|PATH]...")
@click.option(
    "--from-root",
    type=FOLDER,
    metavar="DIR",
    help="The release that the declarations were written for, unpacked.",
)
@click.option(
    "--from",
    "from_version",
    metavar="X",
    help="That release by its number; default: the one that patchgen.lock names.",
)
@click.option(
    "--to-root",
    type=FOLDER,
    metavar="DIR",
    help="The release that they should fit, unpacked; default: the installed one.",
)
@click.option("--to", "to_version", metavar="Y", help="That release by its number.")
@download
@click.option(
    "--write",
    is_flag=True,
    help="Rewrite the modular files; what is left to you stands there as comments.",
)
@text_or_json
def rebase(paths: tuple[str, ...], **rest: Any) -> int:
    """Make modular files fit another release of transformers.

    Says for each edit and override what transformers changed there.  With --write, patchgen
    rewrites those for which the new text is clear.  Above the others, it says in comments what
    transformers changed and what you have to decide.  docs/upgrading.md explains the states.  Exit
    code 0: nothing is left for you to decide; 1: something is.

    \b
    Example:
      patchgen rebase llama_loss --from-root old --to-root new --write
    """
    from patchgen.cli.rebase import rebase_paths

    return rebase_paths(paths, **rest)
