"""`patchgen adopt`: write the declaration that reproduces a fork."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from patchgen.author.adopt.parents import Candidate, find_parents
from patchgen.author.adopt.patched import find_patched
from patchgen.author.adopt.read import place_in_fork, read_fork
from patchgen.author.adopt.releases import Release, chosen, releases_in
from patchgen.author.adopt.report import Report
from patchgen.author.adopt.subclasses import adopt_subclasses
from patchgen.author.adopt.work import adopt
from patchgen.cli.adopt_page import write_adopted_page
from patchgen.cli.progress import bar
from patchgen.cli.report import json_text
from patchgen.cli.session import Request, open_project
from patchgen.cli.variant_pages import require_page_packages
from patchgen.project.files import Project
from patchgen.project.places import user_folder
from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, PatchgenError

_TRIED = 3  # parents, at most, for which a declaration is written and flattened


def adopt_fork(
    file: str,
    *,
    parent: str | None,
    package_root: str | None,
    asked: tuple[str, ...],
    download: bool,
    folder: str | None,
    page: bool = False,
    force: bool,
    form: str,
    apply: str | None = None,
) -> int:
    """Write or print the declaration of the fork at `file`; 0 if it reproduces the fork, else 1."""
    if page and folder is None:
        raise click.UsageError("--page shows what is written: name --write DIR")
    if page:
        require_page_packages()
    path = Path(file)
    project = open_project(Request())
    settings = project.config.settings
    releases = _releases(package_root, asked, download, project)
    name = f"modular_{path.stem.removeprefix('modeling_')}.py"
    patched = find_patched(path, file, apply, releases, parent, settings)
    if patched is not None:
        report = _first_that_holds([patched[0]], path, name, project, is_patch=True)
    else:
        fork = read_fork(path, file, settings)
        with bar(len(releases), "looking at releases") as advance:
            derived = adopt_subclasses(path, fork, releases, name, settings)
            found = () if derived else find_parents(fork, releases, parent, advance)
        if derived is not None:
            report = Report(derived[0], Candidate(derived[0].forked, derived[1]), "")
        else:
            report = _first_that_holds(found[:_TRIED], path, name, project)
    made = report.adopted
    written = _write(report, folder, name, force) if folder is not None else ""
    _print(replace(report, file=written), form, shows=folder is None)
    for note in patched[1] if patched is not None else ():
        click.echo(f"note: {note}", err=folder is None or form == "json")
    if page and written:
        page_path = write_adopted_page(report, name, Path(written).parent, settings)
        click.echo(f"wrote {page_path}", err=form == "json")
    refused = folder is not None and not written
    return int(not made.proof.holds or refused)


def _first_that_holds(
    candidates: Sequence[Candidate],
    path: Path,
    name: str,
    project: Project,
    *,
    is_patch: bool = False,
) -> Report:
    """The first declaration that reproduces the fork, else the one over the best parent.

    Problems are placed in the fork at `path`, but not in a patch, whose text is not the fork's.
    """
    first: Report | None = None
    for found in candidates:
        model = found.forked.module.rpartition(".")[2].removeprefix("modeling_")
        source = f"{model} of transformers {found.release.version}"
        title = f"{path.stem}, adopted by `patchgen adopt` as a change of {source}."
        forked = replace(found.forked, title=title)
        made = adopt(forked, name, found.release.root(), project.config.settings)
        if not is_patch:
            fork = forked.fork.source.path
            problems = place_in_fork(made.proof.problems, made.text, forked.alias, path, fork)
            made = replace(made, proof=replace(made.proof, problems=problems))
        report = Report(made, found, "")
        if made.proof.holds:
            return report
        first = first or report
    assert first is not None
    return first


def _releases(
    package_root: str | None, asked: tuple[str, ...], download: bool, project: Project
) -> tuple[Release, ...]:
    """The releases asked for, those in the given folder, else the installed one."""
    cache = user_folder() / "releases"
    given = releases_in(Path(package_root), cache) if package_root is not None else ()
    if package_root is not None and not given:
        raise PatchgenError(
            "PG807", Location(package_root), "holds no release of transformers", "name its folder"
        )
    installed = _installed(project)
    if asked:
        kept = releases_in(cache, cache) if cache.is_dir() else ()
        return chosen(asked, [*installed, *kept, *given], cache, download=download)
    if not given and not installed:
        raise PatchgenError(
            "PG101",
            Location(""),
            "no module named transformers",
            "install it or name --package-root",
        )
    return given or installed


def _installed(project: Project) -> tuple[Release, ...]:
    path = project.environment().path("transformers")
    return releases_in(path.parent.parent, path.parent) if path is not None else ()


def _write(report: Report, folder: str, name: str, force: bool) -> str:
    """Write the declaration and return its path, "" if it was refused."""
    if not force and not report.adopted.proof.holds:
        click.echo("nothing is written; --force writes the declaration", err=True)
        return ""
    return _put(Path(folder) / name, report.adopted.text, force)


def _put(path: Path, text: str, force: bool) -> str:
    """Write a declaration; one that is there with another text stays, but for `force`."""
    if path.exists() and path.read_text(encoding="utf-8") != text and not force:
        raise PatchgenError(
            "PG804",
            Location(str(path)),
            "is there already, with another text",
            "--force replaces it",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode())
    return str(path)


def _print(report: Report, form: str, *, shows: bool) -> None:
    if form == "json":
        click.echo(json_text(report.data()), nl=False)
        return
    if shows:
        click.echo(report.adopted.text, nl=False)
    print(report.text(), end="", file=sys.stderr if shows else sys.stdout)
    if report.file:
        click.echo(f"wrote {report.file}")
