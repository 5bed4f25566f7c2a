"""Check that every output is what its modular file gives.

In: the outcomes of a run, the files, and the records.  Out: a `Report`.  Nothing is written here;
`convert` writes what the verdicts ask for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen.compiler.flat import Note, is_generated
from patchgen.errors import Location, PatchgenError, Problem, problems_of
from patchgen.project.batch.outcome import (
    Made,
    Outcome,
    digest_of_bytes,
    digest_of_file,
    files_of,
    unified,
)
from patchgen.project.files import Found, Modular, Project, confine
from patchgen.project.gate.lock import Record, describe, is_of
from patchgen.project.gate.orphans import HEAD, find_orphans
from patchgen.project.gate.overrides import Records, compare_overrides
from patchgen.project.gate.verdict import Report, Status, Verdict, Wanted
from patchgen.project.gate.why import find_edited, reasons
from patchgen.project.places import lock_of
from patchgen.syntax.regular import read_regular

Again = Callable[[Sequence[Modular]], Sequence[Outcome]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What outputs are compared with: their records, by path, and how to make them again.

    `again` flattens modular files whose texts are not in the cache; it is called at most once.
    `overrides` are the parents' texts that were recorded; with `accept`, those of today count.
    """

    records: Mapping[Path, Record]
    made_by: str
    again: Again
    overrides: Records = field(default_factory=dict)
    accept: bool = False


def examine(
    project: Project, found: Found, outcomes: Sequence[Outcome], evidence: Evidence
) -> Report:
    """The verdict on every output of `outcomes`, and on outputs without a modular file."""
    clashes = find_clashes(outcomes)
    # Outputs of a file with problems are not judged: `convert` would not write them either.
    sound = [
        outcome for outcome in outcomes if not outcome.problems and outcome.modular not in clashes
    ]
    files, unreadable = _look_at(project, sound)
    fresh = _with_texts(sound, files, evidence.again)
    verdicts: list[Verdict] = []
    problems = {*found.problems, *clashes.values(), *unreadable}
    for outcome in fresh:
        for made in outcome.made:
            problems.update(made.warnings)
            # What could not be read is a problem, and needs no verdict.
            if all(path in files for path, _ in files_of(outcome.modular, made)):
                verdicts.append(judge(project, outcome, made, files, evidence))
    verdicts += find_orphans(project, found, outcomes, evidence.records)
    # A file that was flattened again counts with its new outcome.
    latest: dict[Modular, Outcome] = {}
    for outcome in (*outcomes, *fresh):
        problems.update(outcome.problems)
        latest[outcome.modular] = outcome
    ordered = sorted(verdicts, key=lambda verdict: verdict.display_path)
    overrides = compare_overrides(
        latest.values(), evidence.overrides, project, accept=evidence.accept
    )
    return Report(
        tuple(ordered),
        tuple(sorted(problems)),
        tuple(_notes(fresh)),
        tuple(latest.values()),
        overrides,
    )


def _look_at(
    project: Project, outcomes: Sequence[Outcome]
) -> tuple[dict[Path, str], list[Problem]]:
    """The digests of all outputs on disk, empty for missing ones, and problems with the others."""
    files: dict[Path, str] = {}
    problems = _linked_lock(project, outcomes)
    expected: list[Path] = []
    for outcome in outcomes:
        for made in outcome.made:
            expected += [path for path, _ in files_of(outcome.modular, made)]
    for path in expected:
        try:
            _require_inside(project, path)
            files[path] = _digest(path)
        except PatchgenError as error:
            problems += problems_of(error)
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            problems.append(Problem(Location(project.display_path(path)), "PG903", what))
    return files, problems


def _linked_lock(project: Project, outcomes: Sequence[Outcome]) -> list[Problem]:
    """A problem where the records of `outcomes` lie outside the project."""
    try:
        if any(outcome.modular.recorded for outcome in outcomes):
            _require_inside(project, lock_of(project, project.home))
    except PatchgenError as error:
        return list(problems_of(error))
    return []


def _require_inside(project: Project, path: Path) -> None:
    """Raise PatchgenError PG904 for a link that leads out of where `convert` may write."""
    if path.is_symlink():
        confine(project, path)


def _with_texts(
    outcomes: Sequence[Outcome], files: Mapping[Path, str], again: Again
) -> list[Outcome]:
    """`outcomes` with the texts that verdicts on outputs that are not right need."""
    # An unchanged tree is checked by digests alone, without flattening a file.
    unclean = [
        outcome.modular
        for outcome in outcomes
        if outcome.texts is None and not _is_clean(outcome, files)
    ]
    fresh = {outcome.modular: outcome for outcome in again(unclean)} if unclean else {}
    return [fresh.get(outcome.modular, outcome) for outcome in outcomes]


def _is_clean(outcome: Outcome, files: Mapping[Path, str]) -> bool:
    """Whether every file of the outcome is on disk as it should be."""
    for made in outcome.made:
        for path, digest in files_of(outcome.modular, made):
            if files.get(path) != digest:
                return False
    return True


def _notes(outcomes: Iterable[Outcome]) -> Iterable[Note]:
    """The notes of all outputs, and one for each file that gives none."""
    for outcome in outcomes:
        if not outcome.made and not outcome.problems:
            yield Note(
                Location(outcome.modular.display_path),
                "nothing to generate: no class derives from a parent",
            )
        for made in outcome.made:
            yield from made.notes


def find_clashes(outcomes: Iterable[Outcome]) -> dict[Modular, Problem]:
    """The modular files that give one output, also if only by case, with an error for each.

    The error names the others.
    """
    owners: dict[str, list[Modular]] = {}
    for outcome in outcomes:
        folder = outcome.modular.folder
        # Some file systems do not tell `Model.py` from `model.py`.
        paths = {f"{folder}{os.sep}{made.name}".casefold(): None for made in outcome.made}
        for path in paths:
            owners.setdefault(path, []).append(outcome.modular)
    clashes = {}
    for path, modulars in sorted(owners.items()):
        if len(modulars) == 1:
            continue
        for modular in modulars:
            others = " and ".join(other.display_path for other in modulars if other != modular)
            what = f"gives the output {Path(path).name}, and so does {others}"
            hint = "rename one of them, or map their folders to different places"
            clashes[modular] = Problem(Location(modular.display_path), "PG508", what, hint)
    return clashes


def judge(
    project: Project, outcome: Outcome, made: Made, files: Mapping[Path, str], evidence: Evidence
) -> Verdict:
    """The verdict on one output and its diff: on the first of the two that is not right.

    `files` maps files to their digests on disk.
    """
    modular, wanted = outcome.modular, tuple(files_of(outcome.modular, made))
    output = wanted[0][0]
    record = evidence.records.get(output)
    wrong = [path for path, digest in wanted if files[path] != digest]
    if not wrong:
        return _judge_record(project.display_path(output), modular, made, record)
    texts = outcome.texts or {}
    fixes = tuple(Wanted(path, texts[path.name].encode("utf-8")) for path in wrong)
    # A file that somebody wrote says most: nothing may be written over it.
    foreign = [path for path in wrong if not _is_ours(path)]
    path = (foreign or wrong)[0]
    verdict = Verdict(
        project.display_path(path), modular.display_path, Status.MISSING, fixes=fixes, made=made
    )
    if foreign:
        return replace(verdict, status=Status.NOT_GENERATED, why=_what_it_is(path))
    if not path.exists():
        return verdict
    # An edit may have left bytes that are no text: they are shown, and not what stops the run.
    old, new = read_regular(path).decode("utf-8", errors="replace"), texts[path.name]
    digests = {path.name: files[path] for path in wrong}
    settings = describe(project.config.settings)
    reason = reasons(record, outcome, made, digests, evidence.made_by, settings)
    # Programs that apply diffs take what is behind a tab for a date.
    new_name = f"{verdict.display_path}\tas its modular file gives it"
    diff = unified(old, new, verdict.display_path, new_name)
    first_line = _first_difference(old, new)
    return replace(
        verdict,
        status=Status.STALE,
        why=reason,
        is_edited=made.name in find_edited(record, made, digests),
        line=first_line,
        diff=diff,
    )


def _judge_record(
    display_path: str, modular: Modular, made: Made, record: Record | None
) -> Verdict:
    """The verdict on an output whose files are right: its record may still be wrong."""
    if is_of(record, made) or not modular.recorded:
        return Verdict(display_path, modular.display_path, Status.OK, made=made)
    flaws = (record.flaw,) if record is not None and record.flaw else ()
    return Verdict(display_path, modular.display_path, Status.UNRECORDED, flaws, made=made)


def _is_ours(path: Path) -> bool:
    """Whether patchgen wrote the file at `path`, or there is none."""
    if not path.exists():
        return True
    if not path.is_file():
        return False
    head = read_regular(path)[:HEAD].decode("utf-8", errors="replace")
    if path.suffix == ".diff":
        # A diff has no banner.  An empty file may be replaced: nothing in it is lost.
        return not head or head.startswith("--- ")
    return is_generated(head)


def _what_it_is(path: Path) -> tuple[str, ...]:
    """What stands at `path` if it is no file, in words."""
    if path.is_file():
        return ()
    return ("a folder" if path.is_dir() else "no regular file",)


def _digest(path: Path) -> str:
    """The digest of the file at `path`; "" where there is none, or something that is no file.

    Raises OSError for a file that cannot be read.
    """
    digest = digest_of_file(path)
    if digest or not path.is_file():
        return digest
    # It cannot be read: the same once more, for the error.
    return digest_of_bytes(read_regular(path))


def _first_difference(old: str, new: str) -> int:
    """The first line of `old`, from 1, that is not that of `new`."""
    left, right = old.split("\n"), new.split("\n")
    for line, (ours, theirs) in enumerate(zip(left, right, strict=False), 1):
        if ours != theirs:
            return line
    # One text begins with the other.  No editor goes to a line behind the end of the file.
    return min(len(right) + 1, len(left))
