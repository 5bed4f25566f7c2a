"""`patchgen new`: write the modular file that puts parts into a model of transformers."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from patchgen.author.declare.request import Answer, answer, survey
from patchgen.author.declare.variant import Draft
from patchgen.author.modular_text import format_modular
from patchgen.cli.report import table
from patchgen.cli.session import Request, open_project
from patchgen.gallery import SOURCES
from patchgen.project.files import Project
from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean


def list_parts(model: str, package_root: str | None, says: Mapping[str, str]) -> int:
    """Print which parts fit the model, and why others do not; `says` is what each does."""
    project = open_project(Request((), None, package_root))
    rows = []
    for contribution in survey(project.environment(), model):
        fatal = [missing for missing in contribution.missing if missing.fatal]
        if contribution.redundant:
            rows.append((contribution.part, "redundant", contribution.redundant.split("\n")[0]))
        elif fatal:
            rows.append((contribution.part, "does not fit", str(fatal[0])))
        else:
            rows.append((contribution.part, "fits", says[contribution.part]))
    click.echo(table(("part", "", ""), rows), nl=False)
    return 0


def write_new(
    model: str,
    parts: str,
    *,
    name: str | None,
    dry_run: bool,
    no_proof: bool,
    force: bool,
    **options: Any,
) -> int:
    """Write or print the modular file; 1 if nothing is left to write, or if it proved wrong."""
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
    if not no_proof and not _is_proved(found.draft):
        return 1
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode())
    click.echo(f"wrote {display_path}")
    for part in found.parts:
        for missing in part.missing:
            click.echo(f"note: {part.part}: {missing}", err=True)
    _note_sources(project, display_path)
    return 0


def copy_from_gallery(name: str, force: bool, package_root: str | None) -> int:
    """Copy the modular file of a variant of the gallery into the project."""
    project = open_project(Request((), None, package_root))
    paths = {path.stem.removeprefix("modular_"): path for path in SOURCES.rglob("modular_*.py")}
    if name not in paths:
        hint = did_you_mean(name, paths) or f"there are: {', '.join(sorted(paths))}"
        raise click.UsageError(f"the gallery has no {name}; {hint}")
    copy = project.config.home / (project.config.sources or ("modular",))[0]
    copy = copy / paths[name].relative_to(SOURCES)
    display_path, data = project.environment().display_path(copy), paths[name].read_bytes()
    if copy.exists() and copy.read_bytes() != data and not force:
        hint = "--force replaces it"
        raise PatchgenError(
            "PG804", Location(display_path), "exists already, with another text", hint
        )
    copy.parent.mkdir(parents=True, exist_ok=True)
    replace_file(copy, data)
    click.echo(f"wrote {display_path}")
    _note_sources(project, display_path)
    return 0


def _note_sources(project: Project, display_path: str) -> None:
    if not project.config.sources:
        hint = 'or set sources = ["modular"] in [tool.patchgen] of pyproject.toml'
        note = f"note: this project names no sources: run patchgen convert {display_path}, {hint}"
        click.echo(note, err=True)


def _is_proved(draft: Draft) -> bool:
    """Whether nothing speaks against the draft; says what was verified, or why it was not."""
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            click.echo(f"not verified: that needs {package}", err=True)
            return True
    from patchgen.author.declare.proof import prove

    with tempfile.TemporaryDirectory(prefix="patchgen-", ignore_cleanup_errors=True) as home:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            proof = prove(draft, Path(home))
    if proof.status == "verified":
        heads, errors = " and ".join(proof.heads), f"{len(proof.seen)} planted errors were seen"
        click.echo(f"verified in {heads}: the same as the parent; {errors}", err=True)
    elif proof.status == "failed":
        click.echo(f"nothing is written, since it is wrong here: {proof.why}", err=True)
        click.echo("hint: --no-proof writes it all the same; please report this", err=True)
    else:
        click.echo(f"not verified: the model {proof.why}", err=True)
    return proof.status != "failed"


def _path(project: Project, found: Answer, name: str | None) -> Path:
    suffix = name or found.name
    if not suffix.isidentifier():
        raise click.UsageError(f"--name {suffix}: a module's name can have no such part")
    sources = project.config.sources or ("modular",)
    alias = found.module.alias
    return project.config.home / sources[0] / alias / f"modular_{alias}_{suffix}.py"
