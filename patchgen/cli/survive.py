"""`patchgen survive`: on which releases of transformers each variant converts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from patchgen.author.adopt.releases import Release, releases_in
from patchgen.author.survive.report import data_of, rows_of, text_of
from patchgen.author.survive.survey import survey_of, wanted_releases
from patchgen.cli.progress import bar
from patchgen.cli.rebase import installed_releases, named_modulars
from patchgen.cli.report import json_text
from patchgen.cli.session import Request, open_project
from patchgen.project.files import Project
from patchgen.project.lock import load_records
from patchgen.project.places import user_folder
from patchgen.syntax.errors import Location, PatchgenError


def survive(
    names: tuple[str, ...],
    *,
    asked: tuple[str, ...],
    releases_dir: str | None,
    download: bool,
    form: str,
) -> int:
    """Print the table; 1 if a variant does not convert, or a release is not here."""
    project = open_project(Request())
    modulars = named_modulars(project, names)
    known, cache = _known_releases(project, releases_dir)
    wanted = wanted_releases(asked, known, cache, download=download)
    if not wanted.releases:
        at, what = Location("transformers"), "no release is here"
        if wanted.missing:
            at, what = Location(wanted.missing[0]), "is no release of transformers that is here"
        hint = "name a folder of wheels with --releases-dir, or allow --download"
        raise PatchgenError("PG807", at, what, hint)
    with bar(len(modulars) * len(wanted.releases), "converting") as progress:
        survey = survey_of(project, modulars, wanted, progress)
    rows = rows_of(survey, _on_disk(project))
    if form == "json":
        click.echo(json_text(data_of(rows, survey)), nl=False)
    else:
        click.echo(text_of(rows, survey), nl=False)
    is_whole = not survey.unreadable and not wanted.missing
    return int(not is_whole or not all(row.survives for row in rows))


def _known_releases(project: Project, releases_dir: str | None) -> tuple[list[Release], Path]:
    """The releases that are here, those that were named first, and the user's folder of them."""
    cache = user_folder() / "releases"
    found = [*releases_in(Path(releases_dir).resolve(), cache)] if releases_dir else []
    found += releases_in(cache, cache) if cache.is_dir() else ()
    return [*found, *installed_releases(project)], cache


def _on_disk(project: Project) -> Mapping[str, Mapping[str, str]]:
    """The recorded digests of outputs by their names, for each modular file."""
    found: dict[str, dict[str, str]] = {}
    for path, record in load_records(project).items():
        found.setdefault(record.modular, {})[path.name] = record.digest
    return found
