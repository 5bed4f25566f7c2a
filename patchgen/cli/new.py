"""`patchgen new`: write the modular file that puts parts into a model of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from patchgen.author.declare.request import Answer, answer
from patchgen.cli.session import Request, open_project
from patchgen.compiler.emit.format import format_modular
from patchgen.project.files import Project
from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, PatchgenError


def write_new(
    model: str, parts: str, *, name: str | None, dry_run: bool, force: bool, **options: Any
) -> int:
    """Write or print the modular file; 1 if nothing is left to write."""
    project = open_project(Request((), None, options.get("package_root")))
    wanted = [part.strip() for part in parts.split(",") if part.strip()]
    found = answer(project.environment(), model, wanted, force=force)
    for part in found.left_out:
        click.echo(f"{part.part} is redundant: {part.redundant}", err=True)
    if not found.parts:
        click.echo("nothing is written; --force writes redundant parts too", err=True)
        return 1
    text = format_modular(found.text, project.config.settings)
    if dry_run:
        click.echo(text, nl=False)
        return 0
    path = _path(project, found, name)
    display_path = project.environment().display_path(path)
    if path.exists() and path.read_text(encoding="utf-8") != text and not force:
        raise PatchgenError(
            "PG804",
            Location(display_path),
            "exists already, with another text",
            "--force replaces it",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode())
    click.echo(f"wrote {display_path}")
    for part in found.parts:
        for missing in part.missing:
            click.echo(f"note: {part.part}: {missing}", err=True)
    if not project.config.sources:
        hint = 'or set sources = ["modular"] in [tool.patchgen] of pyproject.toml'
        note = f"note: this project names no sources: run patchgen convert {display_path}, {hint}"
        click.echo(note, err=True)
    return 0


def _path(project: Project, found: Answer, name: str | None) -> Path:
    suffix = name or found.name
    if not suffix.isidentifier():
        raise click.UsageError(f"--name {suffix}: a module's name can have no such part")
    sources = project.config.sources or ("modular",)
    alias = found.module.alias
    return project.config.home / sources[0] / alias / f"modular_{alias}_{suffix}.py"
