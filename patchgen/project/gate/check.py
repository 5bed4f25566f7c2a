"""Check that every output is what its modular file gives.

In: the outcomes of a run, the files, and the records.  Out: a `Report`.  Nothing is written here;
`convert` writes what the verdicts ask for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen.compiler.flat import Note
from patchgen.project.batch.outcome import Made, Outcome, files_of, unified
from patchgen.project.files import Found, Modular, Project
from patchgen.project.gate.lock import Record, describe, is_of
from patchgen.project.gate.orphans import find_orphans
from patchgen.project.gate.overrides import Records, compare_overrides
from patchgen.project.gate.present import Present, are_as_expected, look_at_outputs
from patchgen.project.gate.verdict import Report, Status, Verdict, Wanted
from patchgen.project.gate.why import find_edited, reasons
from patchgen.syntax.errors import Location, Problem
from patchgen.syntax.locate import Environment

Again = Callable[[Sequence[Modular]], Sequence[Outcome]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What outputs are compared with: their records, by path, and how to make them again.

    `again` flattens modular files whose texts are not in the cache; it is called at most once.
    `env` is where parents are looked up that a modular file which does not convert has recorded.
    `overrides` are the parents' texts that were recorded; with `accept`, those of today count.
    """

    records: Mapping[Path, Record]
    made_by: str
    again: Again
    env: Environment
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
    files, unreadable = look_at_outputs(project, sound)
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
        latest.values(), evidence.overrides, evidence.env, accept=evidence.accept
    )
    return Report(
        tuple(ordered),
        tuple(sorted(problems)),
        tuple(_notes(fresh)),
        tuple(latest.values()),
        overrides,
    )


def _with_texts(
    outcomes: Sequence[Outcome], files: Mapping[Path, Present], again: Again
) -> list[Outcome]:
    """`outcomes` with the texts that verdicts on outputs that are not right need."""
    # An unchanged tree is checked by digests alone, without flattening a file.
    unclean = [
        outcome.modular
        for outcome in outcomes
        if outcome.texts is None and not are_as_expected(outcome, files)
    ]
    fresh = {outcome.modular: outcome for outcome in again(unclean)} if unclean else {}
    return [fresh.get(outcome.modular, outcome) for outcome in outcomes]


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
    project: Project,
    outcome: Outcome,
    made: Made,
    files: Mapping[Path, Present],
    evidence: Evidence,
) -> Verdict:
    """The verdict on one output and its diff: on the first of the two that is not right.

    `files` are those of the output on disk.
    """
    modular, wanted = outcome.modular, tuple(files_of(outcome.modular, made))
    output = wanted[0][0]
    wrong = [path for path, digest in wanted if files[path].digest != digest]
    if not wrong:
        # Reading a record takes time, and outputs in another tree need none.
        recorded = evidence.records.get(output) if modular.recorded else None
        return _judge_record(project.display_path(output), modular, made, recorded)
    record = evidence.records.get(output)
    texts = outcome.texts or {}
    fixes = tuple(Wanted(path, texts[path.name].encode("utf-8")) for path in wrong)
    # A file that somebody wrote says most: nothing may be written over it.
    foreign = [path for path in wrong if files[path].is_foreign]
    path = (foreign or wrong)[0]
    present = files[path]
    verdict = Verdict(
        project.display_path(path), modular.display_path, Status.MISSING, fixes=fixes, made=made
    )
    if foreign:
        why = (present.instead,) if present.instead else ()
        return replace(verdict, status=Status.NOT_GENERATED, why=why)
    if present.text is None:
        return verdict
    old, new = present.text, texts[path.name]
    digests = {path.name: files[path].digest for path in wrong}
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


def _first_difference(old: str, new: str) -> int:
    """The first line of `old`, from 1, that is not that of `new`."""
    left, right = old.split("\n"), new.split("\n")
    for line, (ours, theirs) in enumerate(zip(left, right, strict=False), 1):
        if ours != theirs:
            return line
    # One text begins with the other.  No editor goes to a line behind the end of the file.
    return min(len(right) + 1, len(left))
