"""`patchgen new`."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.options import package_root

# Those of `author.declare.request`, which `--help` need not import.
PARTS = ("sdpa", "checkpoint", "loss", "norm", "moe", "grouped", "flash", "flex", "liger")


@click.command()
@click.argument("model")
@click.option(
    "--with", "parts", metavar="PART,...", required=True, help=f"Any of: {', '.join(PARTS)}."
)
@click.option(
    "--name",
    metavar="NAME",
    help="The end of the file's name, modular_MODEL_NAME.py; default: the parts.",
)
@click.option("--dry-run", is_flag=True, help="Print the file; write nothing.")
@click.option("--force", is_flag=True, help="Write redundant parts too; replace an existing file.")
@package_root
def new(model: str, parts: str, **rest: Any) -> int:
    """Write the modular file that puts parts into MODEL.

    MODEL is a modeling module of the installed transformers, such as roformer.  Code of it that
    patchgen does not understand is named with its line.

    \b
    Example:
      patchgen new roformer --with sdpa,loss --dry-run
    """
    from patchgen.cli.new import write_new

    return write_new(model, parts, **rest)
