"""Write a modular file, and never over what somebody wrote."""

from __future__ import annotations

from pathlib import Path

import click

from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, PatchgenError


def refuse_another(path: Path, text: str, force: bool, shown: str) -> None:
    """Raise PG804 where `path`, which messages call `shown`, is there with another text."""
    if path.exists() and path.read_text(encoding="utf-8") != text and not force:
        what, hint = "exists already, with another text", "--force replaces it"
        raise PatchgenError("PG804", Location(shown or str(path)), what, hint)


def write_new(path: Path, text: str, force: bool, shown: str) -> None:
    """Write a modular file, and say so where it has a name to be `shown`."""
    refuse_another(path, text, force, shown)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode())
    if shown:
        click.echo(f"wrote {shown}")
