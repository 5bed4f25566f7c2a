"""`patchgen export`: write a variant as a folder that loads without patchgen."""

from __future__ import annotations

from pathlib import Path

import click

from patchgen.cli import terminal
from patchgen.cli.options import NEW_FOLDER, complete_variants, needs_models, option


@click.command()
@click.argument("name", metavar="VARIANT", shell_complete=complete_variants)
@click.argument("place", metavar="", required=False, type=NEW_FOLDER)
@option("--out folder DIR", "Write the folder DIR.", type=NEW_FOLDER)
@option("--checkpoint SRC", "A folder or an id of the Hub: its weights, tokenizer and settings.")
@needs_models()
def export(name: str, place: str | None, folder: str | None, checkpoint: str | None) -> int:
    """transformers loads DIR with trust_remote_code=True.

    \b
    Example:
      patchgen export llama_loss --out exported --checkpoint my/llama
    """
    from patchgen.runtime.export import export as write

    if place is not None and folder is None:
        terminal.say("patchgen: `export VARIANT DIR` is `export VARIANT --out DIR` now", err=True)
        folder = place
    if folder is None:
        raise click.UsageError("--out names the folder to write")
    target = Path(folder)
    try:
        variant = write(name, target, checkpoint)
    except (ValueError, OSError, ImportError) as error:
        raise click.UsageError(str(error)) from error
    for path in sorted(target.iterdir()):
        terminal.say(f"wrote {Path(folder, path.name)}")
    if checkpoint is None:
        note = f"note: {variant.name} is exported without weights; --checkpoint SRC adds them"
        terminal.say(note, err=True)
    return 0
