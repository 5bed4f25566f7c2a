"""Write what the gate asks for: first the files, then the records.

In: the outcomes of a run.  Out: the gate's report on the tree as it was, and the names of the
written files.  A run holds the lock of the place that it writes to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.project import lock
from patchgen.project.check import Evidence, examine
from patchgen.project.files import Project, Selection, confine
from patchgen.project.outcome import Outcome, digest_of_file
from patchgen.project.overrides import FILE as OVERRIDES
from patchgen.project.overrides import load_overrides, render_overrides
from patchgen.project.places import LOCK, is_own, lock_of, root_of
from patchgen.project.verdict import Report, Status, Verdict
from patchgen.project.write import Change, apply, hold_write_locks
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
        left = {*self.report.problems, *self.problems}
        for verdict in self.report.verdicts:
            problem = verdict.problem
            if problem is not None and verdict.display_path not in self.repaired:
                left.add(problem)
        # No `convert` repairs these: they wait until somebody has looked.
        left.update(stale.problem for stale in self.report.overrides.stale)
        for parents in self.report.parents:
            problem = parents.problem
            if problem is not None:
                left.add(problem)
        return tuple(sorted(left))


def convert(
    project: Project,
    selection: Selection,
    outcomes: Sequence[Outcome],
    evidence: Evidence,
    *,
    force: bool = False,
    remove: bool = False,
) -> Written:
    """Write what is stale, missing or unrecorded.

    `remove` removes orphans, `force` replaces files that people wrote.  The records of `evidence`
    are read again under the lock.  Raises PatchgenError PG904, before anything is written, where an
    output lies outside the places for writing, and PG903 where a step of writing fails: each file
    is the old one or the new one then.
    """
    folders = [confine(project, outcome.modular.folder) for outcome in outcomes]
    roots = sorted({root_of(project, folder) for folder in (*folders, *selection.folders)})
    try:
        with hold_write_locks(project, roots):
            # Another run may have written since `evidence` was collected.
            records = lock.load_records(project)
            overrides = load_overrides(project)
            current = replace(evidence, records=records, overrides=overrides)
            report = examine(project, selection, outcomes, current)
            return _write(project, report, evidence.made_by, roots, force=force, remove=remove)
    except OSError as error:
        # Not every OSError names a file; then it is one of patchgen's own.
        named = isinstance(error.filename, str)
        path = project.display_path(Path(error.filename)) if named else LOCK
        hint = "each output is complete, the old one or the new one: run `patchgen convert` again"
        what = f"cannot be written: {error.strerror or error}"
        raise PatchgenError("PG903", Location(path), what, hint) from error


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
    chosen = [v for v in report.verdicts if _is_to_be_written(v, force=force, remove=remove)]
    changes, repaired, problems = _collect_changes(project, report, chosen)
    recorded: list[str] = []
    for root in roots:
        files = [change for change in changes if root_of(project, change.path) == root]
        records = [
            *_overrides_change(project, report, root),
            *_lock_change(project, report, repaired, made_by, root),
        ]
        # The lock comes last: a run that is killed leaves files that `check` names.
        within = (*project.writable, lock_of(project, root).parent)
        apply([*sorted(files, key=lambda change: change.path), *records], within)
        recorded += [change.path.name for change in records if is_own(project, root)]
    return Written(
        report,
        frozenset(repaired),
        tuple(project.display_path(c.path) for c in changes if c.data is not None),
        tuple(project.display_path(c.path) for c in changes if c.data is None),
        tuple(problems),
        tuple(recorded),
    )


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


def _collect_changes(
    project: Project, report: Report, verdicts: Sequence[Verdict]
) -> tuple[list[Change], set[str], list[Problem]]:
    """What repairs `verdicts`, the outputs that it repairs, and what stands in the way."""
    outcomes = {}
    # What this run makes, by path: a file that was read may be written by now.
    digests = {}
    for outcome in report.outcomes:
        outcomes[outcome.modular.display_path] = outcome
        for path, digest in outcome.files:
            digests[str(path)] = digest
    changes: list[Change] = []
    repaired: set[str] = set()
    problems: list[Problem] = []
    for verdict in verdicts:
        try:
            _require_unchanged(outcomes.get(verdict.modular), digests)
            # An orphan may be nothing but a record.
            fixes = [fix for fix in verdict.fixes if fix.data is not None or fix.path.exists()]
            for fix in fixes:
                confine(project, fix.path)
            changes += fixes
            repaired.add(verdict.display_path)
        except PatchgenError as error:
            problems += problems_of(error)
    return changes, repaired, problems


def _require_unchanged(outcome: Outcome | None, digests: Mapping[str, str]) -> None:
    """Raise PG905 where a file that the output depends on is another one by now."""
    # An orphan has no outcome: no modular file gives it.
    if outcome is None:
        return
    for read in outcome.reads:
        # An output of this run can be a parent of another one.
        if read.digest not in (digests.get(read.path), digest_of_file(Path(read.path))):
            at = Location(outcome.modular.display_path)
            what = f"{Path(read.path).name} changed while it was being converted"
            raise PatchgenError("PG905", at, what, "run the command again")


def _records_after(
    project: Project, report: Report, repaired: Set[str], made_by: str, root: Path
) -> dict[str, lock.Record]:
    """The records below `root` after the outputs in `repaired` have been written."""
    records = {**lock.read_lock(lock_of(project, root))}
    base = lock.base_of(project, root)
    outcomes = {outcome.modular.display_path: outcome for outcome in report.outcomes}
    expected: set[Path] = set()
    for each in report.outcomes:
        expected.update(path for path, _ in each.files)
    for verdict in report.verdicts:
        is_repaired = verdict.display_path in repaired
        if verdict.status is Status.ORPHANED:
            if is_repaired:
                for fix in verdict.fixes:
                    path = fix.path.with_suffix(".py")
                    # A diff may be orphaned alone.
                    if path not in expected and path.is_relative_to(base):
                        records.pop(path.relative_to(base).as_posix(), None)
            continue
        outcome = outcomes.get(verdict.modular)
        output = verdict.output
        # What is wrong on disk keeps its record, which says why it is wrong.  What the cache says
        # of another tree has no parents to record.
        is_right = is_repaired or verdict.status is Status.OK
        if output is None or outcome is None or outcome.texts is None or not is_right:
            continue
        path = outcome.modular.folder / output.name
        # Outputs of a package are recorded in the lock of the package.
        belongs_here = outcome.modular.recorded == is_own(project, root)
        if belongs_here and root_of(project, path) == root:
            name = path.relative_to(base).as_posix()
            if name not in records or not records[name].is_about(output):
                settings = project.config.settings
                records[name] = lock.make_record(name, outcome, output, made_by, settings)
    return records


def _lock_change(
    project: Project, report: Report, repaired: Set[str], made_by: str, root: Path
) -> list[Change]:
    """The change of the records; none where they stay the same, whatever the file's layout."""
    path = lock_of(project, root)
    records = _records_after(project, report, repaired, made_by, root)
    if records == lock.read_lock(path):
        return []
    # A checkout may bring a link in the place of the project's own file.
    if is_own(project, root):
        path = confine(project, path)
    # An edited record may hold half of a surrogate pair, which JSON writes as an escape.
    text = lock.render_lock(records.values())
    return [Change(path, text.encode("utf-8", errors="backslashreplace"))]


def _overrides_change(project: Project, report: Report, root: Path) -> list[Change]:
    """The change of the recorded texts below overrides; none where they say the same."""
    records = report.overrides.records
    is_recorded = project.out is None and is_own(project, root)
    if not is_recorded or records == load_overrides(project):
        return []
    text = render_overrides(records)
    path = confine(project, project.home / OVERRIDES)
    return [Change(path, text.encode("utf-8") if text else None)]
