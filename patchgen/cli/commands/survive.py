"""On which releases of transformers each variant converts: `patchgen rebase --releases`."""

from __future__ import annotations

from pathlib import Path

import click

from patchgen.author.adopt.releases import releases_in
from patchgen.author.survive.report import data_of, rows_of, text_of
from patchgen.author.survive.survey import survey_of, wanted_releases
from patchgen.cli import terminal
from patchgen.cli.options import FOLDER, download, names_or_paths, option, text_or_json
from patchgen.cli.releases import cache_folder, installed_releases, kept_releases
from patchgen.cli.report import print_json
from patchgen.cli.session import Request, named_modulars, open_authored
from patchgen.cli.terminal import bar
from patchgen.project.lock import load_records
from patchgen.syntax.errors import Location, PatchgenError


@click.command()
@names_or_paths
@option("--releases --release asked X|A..B", "As in `patchgen rebase`.", multiple=True)
@option("--releases-dir DIR", "As in `patchgen rebase`.", type=FOLDER)
@download
@text_or_json
def survive(
    names: tuple[str, ...],
    asked: tuple[str, ...],
    releases_dir: str | None,
    download: bool,
    form: str,
) -> int:
    """\b
    Example:
      patchgen survive llama_loss --releases 5.20..5.23 --releases-dir wheels
    """
    return survey(names, asked, releases_dir, download, form)


def survey(
    names: tuple[str, ...],
    asked: tuple[str, ...],
    releases_dir: str | None,
    download: bool,
    form: str,
) -> int:
    """Print on which releases the variants convert; the exit code.

    Results are kept in the cache, so the same command continues an interrupted run.
    """
    project = open_authored(Request())
    modulars = named_modulars(project, names)
    cache = cache_folder()
    releases = [*releases_in(Path(releases_dir).resolve(), cache)] if releases_dir else []
    releases += [*kept_releases(), *installed_releases(project)]
    wanted = wanted_releases(asked, releases, cache, download=download)
    if not wanted.releases:
        at = Location("transformers")
        what = "no release is here"
        if wanted.missing:
            at = Location(wanted.missing[0])
            what = "is no release of transformers that is here"
        hint = "name a folder of wheels with --releases-dir, or allow --download"
        raise PatchgenError("PG807", at, what, hint)
    with bar(len(modulars) * len(wanted.releases), "converting") as progress:
        survey = survey_of(project, modulars, wanted, progress)
    # The recorded digests of outputs by their names, for each modular file.
    digests: dict[str, dict[str, str]] = {}
    for path, record in load_records(project).items():
        digests.setdefault(record.modular, {})[path.name] = record.digest
    rows = rows_of(survey, digests)
    if form == "json":
        print_json("rebase", data_of(rows, survey))
    else:
        terminal.write(text_of(rows, survey))
    is_whole = not survey.unreadable and not wanted.missing
    return int(not is_whole or not all(row.survives for row in rows))
