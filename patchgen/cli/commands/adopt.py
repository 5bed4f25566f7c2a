"""`patchgen adopt`: write the declaration that reproduces a fork."""

from __future__ import annotations

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
from patchgen.cli import terminal
from patchgen.cli.options import FOLDER, NEW_FOLDER, download, option, text_or_json
from patchgen.cli.releases import cache_folder, installed_releases, kept_releases
from patchgen.cli.report import print_json
from patchgen.cli.session import Request, open_authored
from patchgen.cli.terminal import bar
from patchgen.project.files import Project
from patchgen.project.write import write_new
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import INSTALL_TRANSFORMERS

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
@option("--out folder DIR", "Write the declaration into DIR.", type=NEW_FOLDER)
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
      patchgen adopt modeling_my_llama.py --out modular/my_llama
    """
    path = Path(file)
    project = open_authored(Request())
    settings = project.config.settings
    releases = _releases(package_root, asked, download, project)
    name = f"modular_{path.stem.removeprefix('modeling_')}.py"
    patched = find_patched(path, file, apply, releases, parent, settings)
    notes = patched[1] if patched is not None else ()
    if patched is not None:
        report = _first_that_holds([patched[0]], path, name, project, is_patch=True)
    else:
        fork = read_fork(path, file, settings)
        with bar(len(releases), "looking at releases") as advance:
            derived = adopt_subclasses(path, fork, releases, name, settings)
            parents = () if derived else find_parents(fork, releases, parent, advance)
        if derived is not None:
            report = Report(derived[0], Candidate(derived[0].forked, derived[1]), "")
        else:
            report = _first_that_holds(parents[:_TRIED], path, name, project)
    adopted = report.adopted
    holds = adopted.proof.holds
    target = None if folder is None else Path(folder) / name
    if target is not None and (force or holds):
        write_new(target, adopted.text, target.parent, force, str(target))
        report = replace(report, file=str(target))
    elif target is not None:
        terminal.say("nothing is written; --force writes the declaration", err=True)
    if form == "json":
        print_json("adopt", report.data())
    else:
        terminal.write_code(adopted.text if target is None else "")
        terminal.write(report.text(), err=target is None)
        if report.file:
            terminal.say(f"wrote {report.file}")
    for note in notes:
        terminal.say(f"note: {note}", err=target is None or form == "json")
    return int(not holds or (target is not None and not report.file))


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
    reports: list[Report] = []
    for candidate in candidates:
        model = candidate.forked.module.rpartition(".")[2].removeprefix("modeling_")
        source = f"{model} of transformers {candidate.release.version}"
        title = f"{path.stem}, adopted by `patchgen adopt` as a change of {source}."
        forked = replace(candidate.forked, title=title)
        root = candidate.release.root()
        settings = project.config.settings
        adopted = declare(forked, name, root, settings, has_faults=not is_patch)
        if not is_patch:
            fork = forked.fork.source.path
            proof = adopted.proof
            problems = place_in_fork(proof.problems, adopted.text, forked.alias, path, fork)
            adopted = replace(adopted, proof=replace(proof, problems=problems))
        runner_up = next((other for other in candidates if other is not candidate), None)
        reports.append(Report(adopted, candidate, "", runner_up))
        if adopted.proof.holds:
            return reports[-1]
    return reports[0]


def _releases(
    package_root: str | None, asked: tuple[str, ...], download: bool, project: Project
) -> tuple[Release, ...]:
    """The releases asked for, those at `package_root`, else the installed one."""
    cache = cache_folder()
    installed = installed_releases(project)
    at_root = releases_in(Path(package_root), cache) if package_root is not None else ()
    if package_root is not None and not at_root:
        what = "holds no release of transformers"
        hint = "name its folder"
        raise PatchgenError("PG807", Location(package_root), what, hint)
    if asked:
        return chosen(asked, [*installed, *kept_releases(), *at_root], cache, download=download)
    if not at_root and not installed:
        hint = f"name --package-root, or {INSTALL_TRANSFORMERS}"
        raise PatchgenError("PG101", Location("transformers"), "is not installed", hint)
    return at_root or installed
