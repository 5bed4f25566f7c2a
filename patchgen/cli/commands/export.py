"""`patchgen export`."""

from __future__ import annotations

import click

from patchgen.cli.requirements import needs_models


@click.command()
@click.argument("variant")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@click.option(
    "--checkpoint",
    metavar="SRC",
    help="A folder or an id of the Hub: its weights, tokenizer and settings.",
)
@needs_models()
def export(variant: str, folder: str, checkpoint: str | None) -> int:
    """Write VARIANT into DIR, so that it loads without patchgen.

    transformers loads DIR with trust_remote_code=True.

    \b
    Example:
      patchgen export llama_loss exported --checkpoint my/llama
    """
    from patchgen.cli.export import export as run

    return run(variant, folder, checkpoint)
