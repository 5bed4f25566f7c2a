"""`patchgen survive`: on which releases of transformers each variant converts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from patchgen.author.adopt.releases import Release, releases_in
from patchgen.author.survive.book import Book, open_book
from patchgen.author.survive.breaks import find_breaks
from patchgen.author.survive.environments import Verified, verify_on
from patchgen.author.survive.page import page_of
from patchgen.author.survive.picture import picture_of
from patchgen.author.survive.releases import wanted_releases
from patchgen.author.survive.report import Row, data_of, rows_of, text_of
from patchgen.author.survive.survey import Survey, Surveyor
from patchgen.cli.progress import bar
from patchgen.cli.rebase import installed_releases, named_modulars
from patchgen.cli.session import Request, open_project
from patchgen.compiler.emit.format import ruff_state
from patchgen.project.files import Modular, Project
from patchgen.project.lock import load_records
from patchgen.project.outcome import digest_of
from patchgen.project.places import state_of, user_folder
from patchgen.project.versions import own_digest
from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, PatchgenError

BOOK = "survive.jsonl"


def survive(
    names: tuple[str, ...],
    *,
    asked: tuple[str, ...],
    releases_dir: str | None,
    download: bool,
    verified_on: tuple[str, ...],
    page: str | None,
    form: str,
) -> int:
    """Print the table; 1 if a variant does not convert on one of the releases."""
    project = open_project(Request())
    modulars = named_modulars(project, names)
    known, cache = known_releases(project, releases_dir)
    releases = wanted_releases(asked, known, cache, download=download)
    if not releases:
        hint = "name a folder of wheels with --releases-dir, or allow --download"
        raise PatchgenError("PG807", Location("transformers"), "no release is here", hint)
    surveyor = Surveyor(project.environment(), project.config.settings, _book(project))
    with bar(len(modulars) * len(releases), "converting") as progress:
        survey = surveyor.run(modulars, releases, progress)
    rows = rows_of(survey, find_breaks(survey, surveyor), _on_disk(project))
    verified = _verify(verified_on, rows, survey, project)
    if page is not None:
        _write_page(Path(page), rows, survey)
    if form == "json":
        data = data_of(rows, survey) | {"verified": [asdict(one) for one in verified]}
        click.echo(json.dumps(data, indent=1))
    else:
        click.echo(text_of(rows, survey), nl=False)
        for one in verified:
            click.echo(f"verify on {one.version}: exit code {one.code}\n{one.text}", nl=False)
    wrong = bool(survey.unreadable) or any(one.code for one in verified)
    return int(wrong or not all(row.survives for row in rows))


def known_releases(project: Project, releases_dir: str | None) -> tuple[list[Release], Path]:
    """The releases that are here, those that were named first, and the user's folder of them."""
    cache = user_folder() / "releases"
    found = [*releases_in(Path(releases_dir).resolve(), cache)] if releases_dir else []
    found += releases_in(cache, cache) if cache.is_dir() else ()
    return [*found, *installed_releases(project)], cache


def _book(project: Project) -> Book:
    settings = project.config.settings
    made_with = [own_digest(), str(sys.version_info[:2]), ruff_state(), repr(settings)]
    folder = state_of(project, project.home)
    folder.mkdir(parents=True, exist_ok=True)
    return open_book(folder / BOOK, digest_of("\0".join(made_with)))


def _on_disk(project: Project) -> Mapping[str, Mapping[str, str]]:
    """The recorded digests of outputs by their names, for each modular file."""
    found: dict[str, dict[str, str]] = {}
    for path, record in load_records(project).items():
        found.setdefault(record.modular, {})[path.name] = record.digest
    return found


def _verify(
    versions: Sequence[str], rows: Sequence[Row], survey: Survey, project: Project
) -> list[Verified]:
    """Verify, on each release that was asked for, the variants that convert on it."""
    found: list[Verified] = []
    for version in versions:
        release = next((one for one in survey.releases if one.version == version), None)
        if release is None:
            hint = "it has to be among --releases"
            raise PatchgenError("PG807", Location(version), "is none of the releases", hint)
        fit: list[Modular] = [row.modular for row in rows if row.trials[version].converts]
        found.append(verify_on(release, fit, project.home, user_folder() / "environments"))
    return found


def _write_page(page: Path, rows: tuple[Row, ...], survey: Survey) -> None:
    picture = page.with_suffix(".svg")
    versions = [release.version for release in survey.releases]
    command = f"patchgen survive --releases {versions[0]}..{versions[-1]} --page {page.as_posix()}"
    page.parent.mkdir(parents=True, exist_ok=True)
    replace_file(page, page_of(rows, survey, command, picture.name).encode())
    replace_file(picture, picture_of(rows).encode())
    click.echo(f"wrote {page} and {picture}", err=True)
