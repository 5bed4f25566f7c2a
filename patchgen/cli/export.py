"""`patchgen export`: a variant as a folder for others."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click


def export(name: str, folder: str, checkpoint: str | None) -> int:
    """Write the folder and say what is in it; 0."""
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise click.UsageError(
                f"export builds models and needs {package}: pip install 'patchgen[models]'"
            )
    from patchgen.runtime.export import export as write

    target = Path(folder)
    try:
        variant = write(name, target, checkpoint)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    for path in sorted(target.iterdir()):
        click.echo(f"wrote {Path(folder, path.name)}")
    if checkpoint is None:
        click.echo(
            f"note: {variant.name} has no weights here; --checkpoint SRC brings them", err=True
        )
    return 0
