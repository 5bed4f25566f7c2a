"""Check that every output is what its modular file gives.

In: the outcomes of a run, the files, and the records.  Out: a `Report`.  All that verdicts need of
the files is read once, so that judging them looks at no file.  Nothing is written here; `convert`
writes what the verdicts ask for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen import disk
from patchgen.compiler.flat import Note
from patchgen.project.files import Modular, Project, Selection, confine
from patchgen.project.lock import Record, describe
from patchgen.project.orphans import find_orphans, find_shadows, has_banner
from patchgen.project.outcome import (
    Outcome,
    Output,
    digest_of_bytes,
    digest_of_file,
    files_of,
)
from patchgen.project.overrides import Records, compare_overrides
from patchgen.project.parents import find_parents
from patchgen.project.places import lock_of
from patchgen.project.verdict import LINE_ENDS, Report, Status, Verdict, find_edited, reasons
from patchgen.project.write import Change
from patchgen.syntax.errors import Location, PatchgenError, Problem, problems_of
from patchgen.syntax.locate import Environment

Again = Callable[[Sequence[Modular]], Sequence[Outcome]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What outputs are compared with: their records, by path, and how to make them again.

    `again` gives outcomes with their texts; it is called at most once.
    `env` is where parents are looked up that a modular file which does not convert has recorded.
    `overrides` are the parents' texts that were recorded; with `accept`, those of today count.
    `before` are the records of a commit: what they name has to come from a modular file too.
    """

    records: Mapping[Path, Record]
    made_by: str
    again: Again
    env: Environment
    overrides: Records = field(default_factory=dict)
    accept: bool = False
    before: Mapping[Path, Record] = field(default_factory=dict)

    @property
    def all_records(self) -> Mapping[Path, Record]:
        """Every output that was recorded here or in the commit."""
        return {**self.before, **self.records} if self.before else self.records


@dataclass(frozen=True, slots=True)
class Present:
    """What stands on disk in the place of one file of an output.

    `text` is read only for outputs that are not all right.  `is_foreign`: patchgen did not write
    it, and must not replace it.
    """

    digest: str = ""  # empty where there is no file
    text: str | None = field(default=None, repr=False)
    is_foreign: bool = False
    instead: str = ""  # what stands there, in words, if it is no file


def examine(
    project: Project, selection: Selection, outcomes: Sequence[Outcome], evidence: Evidence
) -> Report:
    """The verdict on every output of `outcomes`, and on what is there and should not be."""
    clashes = find_clashes(outcomes)
    # Outputs of a file with problems are not judged: `convert` would not write them either.
    sound = [each for each in outcomes if not each.problems and each.modular not in clashes]
    files, unreadable = look_at_outputs(project, sound)
    fresh = _with_texts(sound, files, evidence)
    verdicts: list[Verdict] = []
    problems = {*selection.problems, *clashes.values(), *unreadable}
    problems.update(find_shadows(project, sound))
    for outcome in fresh:
        for output in outcome.outputs:
            problems.update(output.warnings)
            # What could not be read is a problem, and needs no verdict.
            if all(path in files for path, _ in files_of(outcome.modular, output)):
                verdicts.append(judge(project, outcome, output, files, evidence))
    verdicts += find_orphans(project, selection, outcomes, evidence.all_records)
    # A file that was flattened again counts with its new outcome.
    latest = {outcome.modular: outcome for outcome in (*outcomes, *fresh)}
    for outcome in (*outcomes, *fresh):
        problems.update(outcome.problems)
    overrides = compare_overrides(
        latest.values(),
        evidence.overrides,
        evidence.env,
        accept=evidence.accept,
        whole=selection.whole,
    )
    return Report(
        tuple(sorted(verdicts, key=lambda verdict: verdict.display_path)),
        tuple(sorted(problems)),
        tuple(_notes(fresh)),
        tuple(latest.values()),
        overrides,
        find_parents(project, outcomes),
    )


def _with_texts(
    outcomes: Sequence[Outcome], files: Mapping[Path, Present], evidence: Evidence
) -> list[Outcome]:
    """`outcomes` with the texts that outputs need which are not right."""

    def is_right(outcome: Outcome) -> bool:
        for output in outcome.outputs:
            wanted = tuple(files_of(outcome.modular, output))
            if any(path not in files or files[path].digest != digest for path, digest in wanted):
                return False
            if outcome.modular.recorded:
                record = evidence.records.get(wanted[0][0])
                if record is None or not record.is_about(output):
                    return False
        return True

    # An unchanged tree is checked by digests alone, without flattening a file.
    wrong = [o.modular for o in outcomes if o.texts is None and not is_right(o)]
    fresh = {outcome.modular: outcome for outcome in evidence.again(wrong)} if wrong else {}
    return [fresh.get(outcome.modular, outcome) for outcome in outcomes]


def _notes(outcomes: Iterable[Outcome]) -> Iterable[Note]:
    """The notes of all outputs, and one for each file that gives none."""
    for outcome in outcomes:
        if not outcome.outputs and not outcome.problems:
            yield Note(
                Location(outcome.modular.display_path),
                "nothing to generate: no class derives from a parent",
            )
        for output in outcome.outputs:
            yield from output.notes


def find_clashes(outcomes: Iterable[Outcome]) -> dict[Modular, Problem]:
    """An error for each modular file whose output others give too, also if only by case."""
    owners: dict[str, list[Modular]] = {}
    for outcome in outcomes:
        folder = outcome.modular.folder
        # Some file systems do not tell `Model.py` from `model.py`.
        for path in {f"{folder}{os.sep}{output.name}".casefold() for output in outcome.outputs}:
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
    project: Project,
    outcome: Outcome,
    output: Output,
    files: Mapping[Path, Present],
    evidence: Evidence,
) -> Verdict:
    """The verdict on one output and its diff: on the first of the two that is not right.

    `files` are those of the output on disk.
    """
    modular = outcome.modular
    wanted = tuple(files_of(outcome.modular, output))
    wrong = [path for path, digest in wanted if files[path].digest != digest]
    # Reading a record takes time, and right outputs in another tree need none.
    record = evidence.records.get(wanted[0][0]) if wrong or modular.recorded else None
    # A file that somebody wrote says most: nothing may be written over it.
    foreign = [path for path in wrong if files[path].is_foreign]
    path = [*foreign, *wrong, wanted[0][0]][0]
    verdict = Verdict(project.display_path(path), modular.display_path, Status.OK, output=output)
    if not wrong:
        if not modular.recorded or (record is not None and record.is_about(output)):
            return verdict
        flaws = (record.flaw,) if record is not None and record.flaw else ()
        return replace(verdict, status=Status.UNRECORDED, why=flaws)
    present = files[path]
    texts = outcome.texts or {}
    fixes = tuple(Change(path, texts[path.name].encode("utf-8")) for path in wrong)
    verdict = replace(verdict, status=Status.MISSING, fixes=fixes)
    if foreign:
        why = (present.instead,) if present.instead else ()
        return replace(verdict, status=Status.NOT_GENERATED, why=why)
    if present.text is None:
        return verdict
    old = present.text
    new = texts[path.name]
    stands = {name: (files[name].text or "").replace("\r\n", "\n") for name in wrong}
    if all(text == texts[name.name] for name, text in stands.items()):
        return replace(verdict, status=Status.STALE, why=(LINE_ENDS,))
    digests = {path.name: files[path].digest for path in wrong}
    settings = describe(project.config.settings)
    return replace(
        verdict,
        status=Status.STALE,
        why=reasons(record, outcome, output, digests, evidence.made_by, settings),
        is_edited=output.name in find_edited(record, output, digests),
        line=_first_difference(old, new),
        before=old,
    )


def _first_difference(old: str, new: str) -> int:
    """The first line of `old`, from 1, that is not that of `new`."""
    old_lines = old.split("\n")
    new_lines = new.split("\n")
    for number, (before, after) in enumerate(zip(old_lines, new_lines, strict=False), 1):
        if before != after:
            return number
    # One text begins with the other.  No editor goes to a line behind the end of the file.
    return min(len(new_lines) + 1, len(old_lines))


# What stands on disk


def look_at_outputs(
    project: Project, outcomes: Sequence[Outcome]
) -> tuple[dict[Path, Present], list[Problem]]:
    """What stands where the outputs of `outcomes` belong, and what cannot be read."""
    files: dict[Path, Present] = {}
    problems: list[Problem] = []
    if any(outcome.modular.recorded for outcome in outcomes):
        problems += _leads_out(project, lock_of(project, project.home))
    for outcome in outcomes:
        digests: dict[Path, str] = {}
        for path, _ in outcome.files:
            linked = _leads_out(project, path)
            problems += linked
            try:
                if not linked:
                    digests[path] = _digest(path)
            except OSError as error:
                what = f"cannot be read: {error.strerror or error}"
                problems.append(Problem(Location(project.display_path(path)), "PG903", what))
        # In an unchanged tree, digests are all that is needed.
        is_right = digests == dict(outcome.files)
        for path, digest in digests.items():
            files[path] = Present(digest) if is_right else _read(path, digest)
    return files, problems


def _leads_out(project: Project, path: Path) -> list[Problem]:
    """A problem where `path` is a link that leads out of where `convert` may write."""
    try:
        if os.path.islink(path):
            confine(project, path)
    except PatchgenError as error:
        return list(problems_of(error))
    return []


def _digest(path: Path) -> str:
    """The digest of the file at `path`, or ""; raises OSError for one that cannot be read."""
    digest = digest_of_file(path)
    if digest or not path.is_file():
        return digest
    # It cannot be read: the same once more, for the error.
    return digest_of_bytes(disk.read_bytes(path))


def _read(path: Path, digest: str) -> Present:
    """What stands at `path`, with its text."""
    if not path.exists():
        return Present()
    if not path.is_file():
        instead = "a folder" if path.is_dir() else "no regular file"
        return Present(is_foreign=True, instead=instead)
    data = disk.read_bytes(path)
    # A diff has no banner.  An empty file may be replaced: nothing in it is lost.
    is_diff = not data or data.startswith(b"--- ")
    is_ours = is_diff if path.suffix == ".diff" else has_banner(data)
    # An edit may have left bytes that are no text: they are shown, and not what stops the run.
    return Present(digest, data.decode("utf-8", errors="replace"), is_foreign=not is_ours)
