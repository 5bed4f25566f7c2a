"""`patchgen adopt`: write the declaration that reproduces a fork."""

from __future__ import annotations

import sys
import tempfile
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
from patchgen.author.adopt.work import adopt as declare
from patchgen.cli.commands.page import require_page_packages
from patchgen.cli.options import FOLDER, NEW_FOLDER, download, option, text_or_json
from patchgen.cli.progress import bar
from patchgen.cli.releases import cache_folder, installed_releases, kept_releases
from patchgen.cli.report import json_text
from patchgen.cli.session import Request, open_project
from patchgen.cli.writing import write_new
from patchgen.compiler.settings import Settings
from patchgen.project.files import Project
from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import make_environment

_TRIED = 3  # parents, at most, for which a declaration is written and flattened


@click.command()
@click.argument("file", metavar="FORK.py", type=click.Path(exists=True, dir_okay=False))
@option("--parent MODEL", "The model that it was copied from; default: searched for.")
@option(
    "--package-root DIR",
    "An unpacked release of transformers, or a folder of releases and wheels; "
    "default: the installed release.",
    type=FOLDER,
)
@option(
    "--release --releases asked X|A..B",
    "Releases to compare with: numbers, folders or wheels; may be repeated.",
    multiple=True,
)
@download
@option("--write folder DIR", "Write the declaration into DIR.", type=NEW_FOLDER)
@option("--page", "With --write: also write a page that shows the declaration beside its parent.")
@option("--force", "Write even what is mostly a rewrite; replace an existing file.")
@option(
    "--apply CODE",
    "For a file that patches transformers: what applies it, such as 'replace(fast=True)'.",
)
@text_or_json
def adopt(
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
    """FORK.py is a copy of a modeling file of transformers that somebody changed by hand, or a file
    that assigns functions and classes of its own to those of transformers.  patchgen generates the
    model again from the modular file, and compares it with the fork.  Exit code 0: every class and
    function is equal; 1: some differ.

    \b
    Example:
      patchgen adopt modeling_my_llama.py --write modular/my_llama
    """
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
    written = ""
    if folder is not None and (force or made.proof.holds):
        written = str(Path(folder) / name)
        write_new(Path(written), made.text, force, "")
    elif folder is not None:
        click.echo("nothing is written; --force writes the declaration", err=True)
    _print(replace(report, file=written), form, shows=folder is None)
    for note in patched[1] if patched is not None else ():
        click.echo(f"note: {note}", err=folder is None or form == "json")
    if page and written:
        page_path = _write_page(report, name, Path(written).parent, settings)
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
        made = declare(forked, name, found.release.root(), project.config.settings)
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
    cache = cache_folder()
    given = releases_in(Path(package_root), cache) if package_root is not None else ()
    if package_root is not None and not given:
        what, hint = "holds no release of transformers", "name its folder"
        raise PatchgenError("PG807", Location(package_root), what, hint)
    installed = installed_releases(project)
    if asked:
        return chosen(asked, [*installed, *kept_releases(), *given], cache, download=download)
    if not given and not installed:
        what, hint = "no module named transformers", "install it or name --package-root"
        raise PatchgenError("PG101", Location(""), what, hint)
    return given or installed


def _print(report: Report, form: str, *, shows: bool) -> None:
    if form == "json":
        click.echo(json_text(report.data()), nl=False)
        return
    if shows:
        click.echo(report.adopted.text, nl=False)
    print(report.text(), end="", file=sys.stderr if shows else sys.stdout)
    if report.file:
        click.echo(f"wrote {report.file}")


def _write_page(report: Report, name: str, folder: Path, settings: Settings) -> Path:
    """Write the page of the declaration `name` into `folder` and return its path.

    It shows the declaration, the file that it gives, and the parent of the release that the fork
    was made from.
    """
    from patchgen.pages.render import render_page
    from patchgen.pages.trace import trace_variant
    from patchgen.pages.verdicts import Verdict

    adopted = report.adopted
    # As it was proved: where the file was written, another release may be found.
    with tempfile.TemporaryDirectory(prefix="patchgen-") as scratch:
        home = Path(scratch).resolve()
        path = home / "modular" / name
        path.parent.mkdir()
        path.write_text(adopted.text, encoding="utf-8", newline="\n")
        env = make_environment(home, report.found.release.root())
        variant = trace_variant(path, env, settings)
    level = "good" if adopted.proof.holds else "bad"
    fork = adopted.forked.fork.source.path
    details = (f"compared with {fork}", *report.text().splitlines())
    html = render_page(variant, [Verdict("adopt", level, report.equality, details)])
    target = folder / f"{variant.name}.html"
    replace_file(target, html.encode())
    return target
