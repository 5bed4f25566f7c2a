"""`patchgen rebase`: make declarations fit another release of transformers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import click

from patchgen.author.adopt.releases import Release, chosen, releases_in
from patchgen.author.align.file import read_file
from patchgen.author.rebase.releases import Prover, Tree
from patchgen.author.rebase.report import data_of, text_of
from patchgen.author.rebase.work import Rebase, Rebased
from patchgen.cli.options import FOLDER, download, names_or_paths, option, text_or_json
from patchgen.cli.releases import cache_folder, installed_releases, kept_releases
from patchgen.cli.report import json_text
from patchgen.cli.session import Request, open_project
from patchgen.cli.variants import named_modulars
from patchgen.project.config import FILE
from patchgen.project.drift import text_of as text_of_symbol
from patchgen.project.files import Modular, Project
from patchgen.project.lock import Record, load_records
from patchgen.project.outcome import digest_of
from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, problems_of
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import read_source

_RELEASE = re.compile(r"\btransformers (\S+?)(?:,|$)")


@click.command()
@names_or_paths
@option(
    "--from-root DIR", "The release that the declarations were written for, unpacked.", type=FOLDER
)
@option(
    "--from from_version X",
    "That release by its number; default: the one that patchgen.lock names.",
)
@option(
    "--to-root DIR",
    "The release that they should fit, unpacked; default: the installed one.",
    type=FOLDER,
)
@option("--to to_version Y", "That release by its number.")
@download
@option("--write", "Rewrite the modular files; what is left to you stands there as comments.")
@text_or_json
def rebase(
    names: tuple[str, ...],
    from_root: str | None,
    from_version: str | None,
    to_root: str | None,
    to_version: str | None,
    download: bool,
    write: bool,
    form: str,
) -> int:
    """Says for each edit and override what transformers changed there.  With --write, patchgen
    rewrites those for which the new text is clear.  Above the others, it says in comments what
    transformers changed and what you have to decide.  docs/upgrading.md explains the states.  Exit
    code 0: nothing is left for you to decide; 1: something is.

    \b
    Example:
      patchgen rebase llama_loss --from-root old --to-root new --write
    """
    if (from_root and from_version) or (to_root and to_version):
        raise click.UsageError("name each release by its folder or by its number, not by both")
    project = open_project(Request())
    modulars = named_modulars(project, names)
    records = load_records(project)
    new = _release(project, to_root, to_version, download)
    reports: list[dict[str, object]] = []
    failed = False
    for modular in modulars:
        mine = [record for record in records.values() if record.modular == modular.display_path]
        try:
            old = _release(project, from_root, from_version or _recorded(mine), download)
            made = _rebase(project, modular, mine, (old, new))
        except PatchgenError as error:
            failed = True
            _print_problems(error, modular, form, reports)
            continue
        written = write and made.text != made.modular.source.text
        if written:
            replace_file(modular.path, made.text.encode())
        failed |= not made.is_done
        _print(made, modular, written, form, reports)
    if form == "json":
        click.echo(json_text(reports), nl=False)
    return int(failed)


def _rebase(
    project: Project, modular: Modular, records: list[Record], releases: tuple[Release, Release]
) -> Rebased:
    old, new = releases
    roots = (project.home, *(project.home / root for root in project.config.roots))
    trees = (
        Tree(make_environment(project.home, old.root(), roots)),
        Tree(make_environment(project.home, new.root(), roots)),
    )
    _require_recorded(modular, records, trees[0], old)
    prover = Prover(modular.path.name, roots, project.config.settings)
    file = read_file(read_source(modular.path, display_path=modular.display_path))
    try:
        return Rebase(file, prover, old.root(), new.root(), trees).run()
    except Refusals as error:
        fits = not prover.flatten(file.source.text, new.root()).problems
        raise _not_on_its_own(error, modular, releases, fits) from error


def _not_on_its_own(
    error: Refusals, modular: Modular, releases: tuple[Release, Release], fits: bool
) -> Refusals:
    """The problems of a modular file on the release that it comes from, with what that means.

    `fits` says whether it converts on the new release: then it may have been rebased before.
    """
    old, new = releases
    at = Location(modular.display_path)
    what = f"does not convert on transformers {old.version}, from which it is to be rebased"
    hint = "name the release that it was written for with --from-root or --from"
    if fits:
        hint = f"it converts on transformers {new.version}: if it is rebased already, convert it"
    # The prover has the text in a folder of its own.
    own = [replace(problem, at=replace(problem.at, path=at.path)) for problem in error.problems]
    return Refusals([Problem(at, "PG809", what, hint), *own])


def _recorded(records: list[Record]) -> str | None:
    """The release that the records of a modular file name."""
    found = [_RELEASE.search(record.made_by) for record in records]
    return next((match[1] for match in found if match is not None), None)


def _release(project: Project, root: str | None, version: str | None, download: bool) -> Release:
    """The release in a folder or a wheel, the one with a number, or the installed one."""
    cache = cache_folder()
    place = root or (version if version and Path(version).exists() else None)
    if place is not None:
        found = releases_in(Path(place), cache)
        if len(found) != 1:
            what = f"holds {len(found) or 'no'} releases of transformers, not one"
            raise PatchgenError("PG807", Location(place), what, "name the folder of one release")
        return found[0]
    installed = installed_releases(project)
    if version is None:
        if installed:
            return installed[0]
        what = "no release is installed, and none is named"
        raise PatchgenError("PG807", Location(FILE), what, "name one by its folder or its number")
    if ".." in version:
        raise PatchgenError("PG807", Location(version), "is not one release", "name one number")
    return chosen((version,), [*kept_releases(), *installed], cache, download=download)[0]


def _require_recorded(
    modular: Modular, records: list[Record], tree: Tree, release: Release
) -> None:
    """Raise PG809 where the release is not the one that the outputs were made from."""
    used = {symbol for record in records for symbol in record.parents}
    wrong = sorted(
        symbol.symbol
        for symbol in used
        if symbol.symbol.startswith("transformers.")
        and symbol.symbol.rpartition(".")[2].isidentifier()
        and digest_of(text_of_symbol(symbol.symbol, tree.environment) or "") != symbol.digest
    )
    if wrong:
        names = ", ".join(name.rpartition(".")[2] for name in wrong[:3])
        what = (
            f"was not made from transformers {release.version}: patchgen.lock has other digests "
            f"for {names}" + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        )
        recorded = _recorded(records)
        hint = f"name the release with --from-root or --from {recorded}" if recorded else ""
        raise PatchgenError("PG809", Location(modular.display_path), what, hint)


def _print(
    made: Rebased, modular: Modular, written: bool, form: str, reports: list[dict[str, object]]
) -> None:
    if form == "json":
        reports.append(data_of(made, modular.display_path, written))
        return
    click.echo(text_of(made, modular.display_path), nl=False)
    if written:
        click.echo(f"rewrote {modular.display_path}")
    elif made.text != made.modular.source.text:
        click.echo("--write rewrites it")


def _print_problems(
    error: PatchgenError, modular: Modular, form: str, reports: list[dict[str, object]]
) -> None:
    problems = problems_of(error)
    if form != "json":
        click.echo("\n".join(map(str, problems)), err=True)
        return
    told = [{"code": p.code, "line": p.at.line, "what": p.what, "hint": p.hint} for p in problems]
    done: dict[str, object] = {"done": False, "written": False, "changes": [], "problems": told}
    reports.append({"modular": modular.display_path, **done})
