"""What the commands on outputs print, and on which stream."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.cli import colour
from patchgen.cli.report import FORMATS, Page, exit_code, plural
from patchgen.compiler.flat import Note
from patchgen.project.files import Project, Selection
from patchgen.project.outcome import Outcome
from patchgen.project.verdict import Report, Status, Verdict
from patchgen.syntax.errors import Problem

if TYPE_CHECKING:
    from patchgen.project.convert import Written
    from patchgen.project.drift import Drift


@dataclass(frozen=True, slots=True)
class Style:
    """How much is printed, and in which form."""

    quiet: bool
    verbose: bool
    form: str


def make_style(quiet: bool, verbose: bool, output_format: str | None) -> Style:
    """The style that the options ask for; the default on GitHub's runners is annotations."""
    default = "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"
    return Style(quiet, verbose, output_format or default)


def print_checked(
    project: Project,
    report: Report,
    style: Style,
    drifts: tuple[Drift, ...] = (),
    *,
    with_diff: bool = False,
) -> int:
    """Print the report of the gate, and whether variants still fit another release."""
    findings = report.findings
    page = _page(project, report, findings, style)
    page = replace(page, drifts=drifts, printed_notes=_notes_without_output(report))
    if with_diff and style.form == "text":
        colour.write("".join(verdict.diff for verdict in report.verdicts))
        colour.write(FORMATS["text"](page), sys.stderr)
    else:
        _write(page, style)
    return exit_code(findings) or int(any(drift.is_gone for drift in drifts))


def print_written(project: Project, result: Written, style: Style) -> int:
    """Print what was written, and the problems that remain."""
    findings, report = result.remaining, result.report
    if style.form != "text":
        _write(_page(project, report, findings, style), style)
        return exit_code(findings)
    reasons = {verdict.display_path: verdict for verdict in report.verdicts}
    if not style.quiet:
        for path in result.written:
            sys.stderr.write(f"wrote {path}{_because(reasons.get(path))}\n")
        for path in result.removed:
            sys.stderr.write(f"removed {path}\n")
        for stale in report.overrides.accepted:
            sys.stderr.write(f"accepted {stale.override.name} of {stale.modular}\n")
        for name in result.recorded:
            sys.stderr.write(f"updated {name}\n")
    printed_notes = (*_notes_without_output(report), *_new_notes(result))
    page = _page(project, Report(notes=report.notes), findings, style)
    _write(replace(page, printed_notes=printed_notes), style)
    if not style.quiet:
        sys.stderr.write(f"{_summary(result, findings)}\n")
    return exit_code(findings)


def _write(page: Page, style: Style) -> None:
    text = FORMATS[style.form](page)
    if style.form == "text":
        colour.write(text)
    else:
        sys.stdout.write(text)


def _notes_without_output(report: Report) -> tuple[Note, ...]:
    """The notes on modular files that have no output: they are repeated until that is fixed."""
    of_outputs: set[Note] = set()
    for verdict in report.verdicts:
        if verdict.output is not None:
            of_outputs.update(verdict.output.notes)
    return tuple(note for note in report.notes if note not in of_outputs)


def _new_notes(result: Written) -> tuple[Note, ...]:
    """The notes on outputs that this run has changed."""
    notes: list[Note] = []
    for verdict in result.report.verdicts:
        is_changed = (
            verdict.display_path in result.repaired and verdict.status is not Status.UNRECORDED
        )
        if is_changed and verdict.output is not None:
            notes += verdict.output.notes
    return tuple(notes)


def _summary(result: Written, findings: Sequence[Problem]) -> str:
    unchanged = (Status.OK, Status.UNRECORDED)
    kept = sum(verdict.status in unchanged for verdict in result.report.verdicts)
    errors = [problem for problem in findings if problem.severity == "error"]
    files = {problem.at.path for problem in errors}
    failed = f"{plural(len(errors), 'error')} in {plural(len(files), 'file')}"
    if errors and not (result.written or result.removed):
        # Records may have been brought up to date, which has been printed above.
        return f"{'no output' if result.recorded else 'nothing'} written: {failed}"
    done = f"{len(result.written)} written, {len(result.removed)} removed, {kept} unchanged"
    return f"{done}; {failed}" if errors else done


def _because(verdict: Verdict | None) -> str:
    return f" ({'; '.join(verdict.why)})" if verdict is not None and verdict.why else ""


def print_linted(
    project: Project, selection: Selection, outcomes: Sequence[Outcome], style: Style
) -> int:
    """Print what is wrong with declarations."""
    problems: set[Problem] = {*selection.problems}
    warnings: set[Problem] = set()
    notes: list[Note] = []
    for outcome in outcomes:
        problems.update(outcome.problems)
        for output in outcome.outputs:
            warnings.update(output.warnings)
            notes += output.notes
    findings = tuple(sorted(problems | warnings))
    page = _page(project, Report(notes=tuple(notes)), findings, style)
    page = replace(page, printed_notes=tuple(notes))
    _write(page, style)
    if not style.quiet and style.form == "text":
        counted = [plural(len(outcomes), "modular file"), plural(len(findings), "finding")]
        sys.stderr.write(f"{', '.join(counted)}\n")
    # Every finding of lint itself fails; the warnings that `convert` also prints do not.
    return exit_code(findings) or int(bool(problems))


def _page(project: Project, report: Report, findings: tuple[Problem, ...], style: Style) -> Page:
    return Page(
        rows=report.verdicts,
        findings=findings,
        notes=report.notes,
        verbose=style.verbose,
        quiet=style.quiet,
        refused=len(report.refused),
        stale=report.overrides.stale,
        base=_base(project),
    )


def _base(project: Project) -> str:
    """The path from the top of the repository to the project, for annotations."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    top = Path(workspace).resolve() if workspace else project.home
    inner = project.home.relative_to(top).as_posix() if project.home.is_relative_to(top) else "."
    return "" if inner == "." else f"{inner}/"
