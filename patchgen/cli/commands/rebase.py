"""`patchgen rebase`: make declarations fit another release of transformers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from patchgen import disk
from patchgen.author.adopt.releases import Release
from patchgen.author.align.file import read_file
from patchgen.author.rebase.releases import Prover, Tree
from patchgen.author.rebase.report import data_of, text_of
from patchgen.author.rebase.work import Rebase, Rebased
from patchgen.cli import terminal
from patchgen.cli.commands.survive import survey
from patchgen.cli.options import FOLDER, download, names_or_paths, option, text_or_json
from patchgen.cli.releases import named_release
from patchgen.cli.report import plural, print_json
from patchgen.cli.session import Request, named_modulars, open_authored
from patchgen.project.drift import find_recorded
from patchgen.project.files import Modular, Project, confine
from patchgen.project.lock import Record, load_records, split_marks
from patchgen.project.overrides import accept_parents
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, problems_of
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import read_source

_RELEASE = re.compile(r"\btransformers (\S+?)(?:,|$)")


@click.command()
@names_or_paths
@option(
    "--from --from-root old X|DIR",
    "The release that the declarations were written for; default: that of patchgen.lock.",
)
@option("--to --to-root new Y|DIR", "The release that they should fit; default: the installed one.")
@download
@option(
    "--releases --release asked X|A..B",
    "Change nothing: say on which of these it converts. Numbers, ranges, folders, wheels or all.",
    multiple=True,
)
@option(
    "--releases-dir DIR",
    "For --releases: a folder of wheels or unpacked releases, beside those of the cache.",
    type=FOLDER,
)
@option("--write", "Rewrite the modular files; what is left to you stands there as comments.")
@text_or_json
def rebase(
    names: tuple[str, ...],
    old: str | None,
    new: str | None,
    asked: tuple[str, ...],
    releases_dir: str | None,
    download: bool,
    write: bool,
    form: str,
) -> int:
    """Says for each edit and override what transformers changed there.  With --write, patchgen
    rewrites those for which the new text is clear.  Above the others, it says in comments what
    transformers changed and what you have to decide.  docs/upgrading.md explains the states.  Exit
    code 0: nothing is left for you to decide; 1: something is.

    With --releases it says on which releases each variant converts, and names the change of
    transformers that broke it.  The same command continues an interrupted run.  Exit code 1: it
    does not convert on one of them, or a release that you named is not here.

    \b
    Example:
      patchgen rebase llama_loss --from old --to new --write
      patchgen rebase llama_loss --releases 5.20..5.23 --releases-dir wheels
    """
    if asked or releases_dir is not None:
        if write or old is not None or new is not None:
            raise click.UsageError("--releases changes nothing: leave --from, --to and --write out")
        asked = () if "all" in asked else asked
        return survey(names, asked, releases_dir, download, form)
    project = open_authored(Request())
    modulars = named_modulars(project, names)
    if write:
        for modular in modulars:
            confine(project, modular.path)
    records = load_records(project)
    target = named_release(project, new, download)
    reports: list[dict[str, Any]] = []
    is_done = True
    for modular in modulars:
        mine = [record for record in records.values() if record.modular == modular.display_path]
        try:
            release = named_release(project, old or _recorded(mine), download)
            rebased = _rebase(project, modular, mine, (release, target))
        except PatchgenError as error:
            is_done = False
            problems = problems_of(error)
            reports.append(_refused(modular, problems))
            if form == "text":
                terminal.say("\n".join(map(str, problems)), err=True)
            continue
        is_new = rebased.text != rebased.modular.source.text
        if write and is_new:
            disk.write(modular.path, rebased.text, project.writable)
        if write:
            # `convert` would ask about each of them (PG510).
            env = make_environment(project.home, target.root(), _roots(project))
            accept_parents(project, modular.display_path, rebased.followed, env)
        is_done &= rebased.is_done
        reports.append(data_of(rebased, modular.display_path, write and is_new))
        if form == "text":
            terminal.write(text_of(rebased, modular.display_path))
            if is_new:
                terminal.say(f"rewrote {modular.display_path}" if write else "--write rewrites it")
    if form == "json":
        print_json("rebase", {"modulars": reports})
    return int(not is_done)


def _rebase(
    project: Project, modular: Modular, records: list[Record], releases: tuple[Release, Release]
) -> Rebased:
    old, new = releases
    roots = _roots(project)
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
        at = Location(modular.display_path)
        what = f"does not convert on transformers {old.version}, from which it is to be rebased"
        hint = "name the release that it was written for with --from"
        if not prover.flatten(file.source.text, new.root()).problems:
            # It may have been rebased before.
            fits = f"it converts on transformers {new.version}"
            hint = f"{fits}: if it is rebased already, convert it"
        # The prover has the text in a folder of its own.
        why = [replace(p, at=replace(p.at, path=at.path)) for p in error.problems]
        raise Refusals([Problem(at, "PG809", what, hint), *why]) from error


def _roots(project: Project) -> tuple[Path, ...]:
    return (project.home, *(project.home / root for root in project.config.roots))


def _recorded(records: list[Record]) -> str | None:
    """The release that the records of a modular file name."""
    matches = [_RELEASE.search(record.made_by) for record in records]
    return next((match[1] for match in matches if match is not None), None)


def _require_recorded(
    modular: Modular, records: list[Record], tree: Tree, release: Release
) -> None:
    """Raise PG809 where the release is not the one that the outputs were made from."""
    wrong: dict[str, int] = {}
    for record in records:
        for module, marks in record.parents.items():
            found = find_recorded(record, module, tree.environment)
            count = len(split_marks(marks)) - len(found)
            if count and module.startswith("transformers."):
                wrong[module] = max(count, wrong.get(module, 0))
    if wrong:
        counts = [f"{plural(wrong[module], 'definition')} of {module}" for module in sorted(wrong)]
        what = f"was not made from transformers {release.version}: "
        what += f"patchgen.lock records other texts of {' and '.join(counts)}"
        recorded = _recorded(records)
        hint = f"name the release with --from {recorded}" if recorded else ""
        raise PatchgenError("PG809", Location(modular.display_path), what, hint)


def _refused(modular: Modular, problems: Sequence[Problem]) -> dict[str, Any]:
    told = [problem.data() for problem in problems]
    state = {"done": False, "written": False, "changes": [], "problems": told}
    return {"modular": modular.display_path, **state}
