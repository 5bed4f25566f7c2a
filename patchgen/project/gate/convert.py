"""Write what the gate asks for: first the files, then the records, all or nothing.

In: the outcomes of a run.  Out: the gate's report on the tree as it was, and the names of the
written files.  A run holds the lock of the place that it writes to, and first cleans up after a
killed one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.project.batch.outcome import Made, Outcome, digest_of_file
from patchgen.project.disk.write import Change, Unfinished, apply
from patchgen.project.disk.write_lock import hold_write_lock
from patchgen.project.files import Found, Project, confine
from patchgen.project.gate.check import Evidence, examine
from patchgen.project.gate.load import base_of, load_overrides, load_records
from patchgen.project.gate.lock import Record, is_of, make_record, read_lock, render_lock
from patchgen.project.gate.overrides import FILE as OVERRIDES
from patchgen.project.gate.overrides import render_overrides
from patchgen.project.gate.verdict import Report, Status, Verdict, Wanted
from patchgen.project.places import LOCK, is_own, lock_of, root_of, state_of
from patchgen.syntax.errors import Location, PatchgenError, Problem, problems_of


@dataclass(frozen=True, slots=True)
class Written:
    """What a run wrote: its files, and the gate's report on the tree as it was before."""

    report: Report
    repaired: frozenset[str] = frozenset()
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()  # what stood in the way of writing
    recorded: tuple[str, ...] = ()  # the project's own files of records that changed

    @property
    def remaining(self) -> tuple[Problem, ...]:
        """The findings that writing did not repair."""
        left: list[Problem] = []
        for verdict in self.report.verdicts:
            problem = verdict.problem
            if problem is not None and verdict.display_path not in self.repaired:
                left.append(problem)
        # No `convert` repairs these: they wait until somebody has looked.
        left += [stale.problem for stale in self.report.overrides.stale]
        return tuple(sorted({*self.report.problems, *self.problems, *left}))


def convert(
    project: Project,
    found: Found,
    outcomes: Sequence[Outcome],
    evidence: Evidence,
    *,
    force: bool = False,
    remove: bool = False,
) -> Written:
    """Write what is stale, missing or unrecorded.

    `remove` removes orphans, `force` replaces files that people wrote.  The records of `evidence`
    are read again under the lock.  Raises PatchgenError PG904, before anything is written, where an
    output lies outside the places for writing, and PG903 where a step of writing fails; the files
    are then what they were.
    """
    folders = [*(confine(project, outcome.modular.folder) for outcome in outcomes), *found.folders]
    # Every run takes its locks in the same order, so that no two wait for each other.
    roots = sorted({root_of(project, folder) for folder in folders})
    try:
        with contextlib.ExitStack() as held:
            for root in roots:
                held.enter_context(hold_write_lock(project, root, folders))
            # Another run may have written since `evidence` was collected.
            records, overrides = load_records(project), load_overrides(project)
            current = replace(evidence, records=records, overrides=overrides)
            report = examine(project, found, outcomes, current)
            return _write(project, report, evidence.made_by, roots, force=force, remove=remove)
    except OSError as error:
        raise _refused(project, error) from error


def _write(
    project: Project,
    report: Report,
    made_by: str,
    roots: Sequence[Path],
    *,
    force: bool,
    remove: bool,
) -> Written:
    """Write what repairs the chosen verdicts, place by place."""
    chosen = [
        each for each in report.verdicts if _is_to_be_written(each, force=force, remove=remove)
    ]
    wanted, repaired, problems = _collect_changes(project, report, chosen)
    recorded: list[str] = []
    for root in roots:
        mine = [want for want in wanted if root_of(project, want.path) == root]
        records = _records_after(project, report, repaired, made_by, root)
        changes = [*_overrides_change(project, report, root), *_lock_change(project, root, records)]
        # The lock comes last: a run that is killed leaves files that `check` names.
        apply([*_changes(mine), *changes], state_of(project, root))
        recorded += [change.path.name for change in changes if is_own(project, root)]
    written = [project.display_path(want.path) for want in wanted if want.data is not None]
    removed = [project.display_path(want.path) for want in wanted if want.data is None]
    return Written(
        report,
        frozenset(repaired),
        tuple(written),
        tuple(removed),
        tuple(problems),
        tuple(recorded),
    )


def _collect_changes(
    project: Project, report: Report, verdicts: Sequence[Verdict]
) -> tuple[list[Wanted], set[str], list[Problem]]:
    """What repairs `verdicts`, the outputs that it repairs, and what stands in the way."""
    fresh = {outcome.modular.display_path: outcome for outcome in report.outcomes}
    # What this run makes, by path: a file that was read may be written by now.
    made: dict[str, str] = {}
    for outcome in report.outcomes:
        for each in outcome.made:
            made[str(outcome.modular.folder / each.name)] = each.digest
    wanted: list[Wanted] = []
    repaired: set[str] = set()
    problems: list[Problem] = []
    for verdict in verdicts:
        try:
            _require_unchanged(fresh.get(verdict.modular), made)
            # An orphan may be nothing but a record.
            fixes = [want for want in verdict.fixes if want.data is not None or want.path.exists()]
            wanted += [Wanted(confine(project, want.path), want.data) for want in fixes]
            repaired.add(verdict.display_path)
        except PatchgenError as error:
            problems += problems_of(error)
    return wanted, repaired, problems


def _refused(project: Project, error: OSError) -> PatchgenError:
    """The error for a step of writing that failed."""
    # Not every OSError names a file; then it is one of patchgen's own.
    path = LOCK
    if isinstance(error.filename, str):
        path = project.display_path(Path(error.filename))
    hint = "every output is what it was"
    if isinstance(error, Unfinished):
        hint = "each output is complete, the old one or the new one: run `patchgen convert` again"
    what = f"cannot be written: {error.strerror or error}"
    return PatchgenError("PG903", Location(path), what, hint)


def _is_to_be_written(verdict: Verdict, *, force: bool, remove: bool) -> bool:
    """Whether this run repairs the output."""
    match verdict.status:
        case Status.STALE | Status.MISSING | Status.UNRECORDED:
            return True
        case Status.NOT_GENERATED:
            return force and not verdict.why  # what is no file is never replaced
        case Status.ORPHANED:
            # Without fixes, it was edited, or nobody knows what gave it.
            return remove and bool(verdict.fixes)
        case _:
            return False


def _require_unchanged(outcome: Outcome | None, made: Mapping[str, str]) -> None:
    """Raise PG905 where a file that the output depends on is another one by now."""
    # An orphan has no outcome: no modular file gives it.
    if outcome is None:
        return
    for read in outcome.reads:
        # An output of this run can be a parent of another one.
        if read.digest not in (made.get(read.path), digest_of_file(Path(read.path))):
            at = Location(outcome.modular.display_path)
            what = f"{Path(read.path).name} changed while it was being converted"
            raise PatchgenError("PG905", at, what, "run the command again")


def _changes(wanted: Iterable[Wanted]) -> list[Change]:
    return [Change(want.path, want.data) for want in sorted(wanted, key=lambda want: want.path)]


def _records_after(
    project: Project, report: Report, repaired: Set[str], made_by: str, root: Path
) -> dict[str, Record]:
    """The records below `root` after the outputs in `repaired` have been written."""
    records, base = read_lock(lock_of(project, root)), base_of(project, root)
    by_modular = {outcome.modular.display_path: outcome for outcome in report.outcomes}
    for verdict in report.verdicts:
        is_repaired = verdict.display_path in repaired
        if verdict.status is Status.ORPHANED:
            if is_repaired:
                _forget(verdict, records, base)
            continue
        outcome = by_modular.get(verdict.modular)
        if not verdict.made or outcome is None:
            continue
        # What is wrong on disk keeps its record, which says why it is wrong.
        if verdict.status is not Status.OK and not is_repaired:
            continue
        output = outcome.modular.folder / verdict.made.name
        name = output.relative_to(base).as_posix()
        # Outputs of a package are recorded in the lock of the package.
        belongs_here = outcome.modular.recorded == is_own(project, root)
        is_here = root_of(project, output) == root and belongs_here
        if is_here and not is_of(records.get(name), verdict.made):
            records[name] = _record(name, outcome, verdict.made, made_by, project)
    return records


def _forget(verdict: Verdict, records: dict[str, Record], base: Path) -> None:
    """Remove the records of the outputs that were removed."""
    for want in verdict.fixes:
        if want.path.is_relative_to(base):
            # The diff of an output has no record of its own.
            output = want.path.with_suffix(".py")
            records.pop(output.relative_to(base).as_posix(), None)


def _record(name: str, outcome: Outcome, made: Made, made_by: str, project: Project) -> Record:
    """The record of an output in the file that it belongs to."""
    record = make_record(name, outcome, made, made_by, project.config.settings)
    # Of a foreign tree it is only asked why an output is stale, and whole trees would make for a
    # large file.
    return record if outcome.modular.recorded else replace(record, lines=())


def _lock_change(project: Project, root: Path, records: Mapping[str, Record]) -> list[Change]:
    """The change of the records, which is written last.

    None where the records stay the same, whatever the layout of the file.
    """
    path = lock_of(project, root)
    if records == read_lock(path):
        return []
    # A checkout may bring a link in the place of the project's own file.
    if is_own(project, root):
        path = confine(project, path)
    return [Change(path, _encoded(records))]


def _overrides_change(project: Project, report: Report, root: Path) -> list[Change]:
    """The change of the recorded texts below overrides; none where they say the same."""
    records = report.overrides.records
    is_recorded = project.out is None and is_own(project, root)
    if not is_recorded or records == load_overrides(project):
        return []
    text = render_overrides(records)
    path = confine(project, project.home / OVERRIDES)
    return [Change(path, text.encode("utf-8") if text else None)]


def _encoded(records: Mapping[str, Record]) -> bytes:
    # An edited record may hold half of a surrogate pair, which JSON writes as an escape.
    return render_lock(records.values()).encode("utf-8", errors="backslashreplace")
