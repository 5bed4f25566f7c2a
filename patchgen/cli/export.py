"""`patchgen export`: write a variant as a folder that loads without patchgen."""

from __future__ import annotations

from pathlib import Path

import click


def export(name: str, folder: str, checkpoint: str | None) -> int:
    """Write the folder and print what is in it; the exit code."""
    from patchgen.runtime.export import export as write

    target = Path(folder)
    try:
        variant = write(name, target, checkpoint)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    for path in sorted(target.iterdir()):
        click.echo(f"wrote {Path(folder, path.name)}")
    if checkpoint is None:
        note = f"note: {variant.name} is exported without weights; --checkpoint SRC adds them"
        click.echo(note, err=True)
    return 0
