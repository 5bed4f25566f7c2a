"""What a command prints, and on which stream."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.cli.report import FORMATS, Page, Row, exit_code, plural
from patchgen.compiler.flat import Note
from patchgen.errors import Problem
from patchgen.project.batch.outcome import Outcome
from patchgen.project.files import Found, Project
from patchgen.project.gate.convert import Written
from patchgen.project.gate.drift import Drift, Fit
from patchgen.project.gate.verdict import Report, Status, Verdict
from patchgen.project.places import LOCK


@dataclass(frozen=True, slots=True)
class Style:
    """How much is printed, and in which form."""

    quiet: bool
    verbose: bool
    form: str


def make_style(quiet: bool, verbose: bool, output_format: str | None) -> Style:
    """The style that the options ask for; on GitHub's runners findings are annotations unless they say otherwise."""
    default = "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"
    return Style(quiet, verbose, output_format or default)


def checked(
    project: Project,
    report: Report,
    style: Style,
    drifts: tuple[Drift, ...] = (),
    *,
    with_diff: bool = False,
) -> int:
    """Print the gate's report, and what becomes of variants under another release."""
    findings = report.findings
    page = replace(
        _page(project, report, findings, style), drifts=drifts, told=_of_no_output(report)
    )
    if with_diff and style.form == "text":
        sys.stdout.write("".join(verdict.diff for verdict in report.verdicts))
        sys.stderr.write(FORMATS["text"](page))
    else:
        sys.stdout.write(FORMATS[style.form](page))
    return exit_code(findings) or int(any(drift.fit is Fit.GONE for drift in drifts))


def written(project: Project, result: Written, style: Style) -> int:
    """Print what was written, and what stood in the way."""
    findings, report = result.remaining, result.report
    if style.form != "text":
        sys.stdout.write(FORMATS[style.form](_page(project, report, findings, style)))
        return exit_code(findings)
    reasons = {verdict.shown: verdict for verdict in report.verdicts}
    if not style.quiet:
        for path in result.written:
            sys.stderr.write(f"wrote {path}{_because(reasons.get(path))}\n")
        for path in result.removed:
            sys.stderr.write(f"removed {path}\n")
        if result.recorded:
            sys.stderr.write(f"updated {LOCK}\n")
    told = (*_of_no_output(report), *_news(result))
    sys.stdout.write(
        FORMATS["text"](
            replace(_page(project, Report(notes=report.notes), findings, style), told=told)
        )
    )
    if not style.quiet:
        sys.stderr.write(f"{_summary(result, findings)}\n")
    return exit_code(findings)


def _of_no_output(report: Report) -> tuple[Note, ...]:
    """The notes on modular files that give nothing, which are told until that is mended."""
    about = {
        note
        for verdict in report.verdicts
        if verdict.made is not None
        for note in verdict.made.notes
    }
    return tuple(note for note in report.notes if note not in about)


def _news(result: Written) -> tuple[Note, ...]:
    """The notes on outputs that this run has changed."""
    changed = [
        v
        for v in result.report.verdicts
        if v.shown in result.mended and v.status is not Status.UNRECORDED
    ]
    return tuple(
        note for verdict in changed if verdict.made is not None for note in verdict.made.notes
    )


def _summary(result: Written, findings: Sequence[Problem]) -> str:
    kept = sum(
        verdict.status in (Status.OK, Status.UNRECORDED) for verdict in result.report.verdicts
    )
    errors = [problem for problem in findings if problem.severity == "error"]
    failed = f"{plural(len(errors), 'error')} in {plural(len({problem.at.path for problem in errors}), 'file')}"
    if errors and not (result.written or result.removed):
        return f"nothing written: {failed}"
    done = f"{len(result.written)} written, {len(result.removed)} removed, {kept} unchanged"
    return f"{done}; {failed}" if errors else done


def _because(verdict: Verdict | None) -> str:
    return f" ({'; '.join(verdict.why)})" if verdict is not None and verdict.why else ""


def linted(project: Project, found: Found, outcomes: Sequence[Outcome], style: Style) -> int:
    """Print what is wrong with declarations."""
    problems = {*found.problems, *(problem for outcome in outcomes for problem in outcome.problems)}
    notes = tuple(note for outcome in outcomes for made in outcome.made for note in made.notes)
    warnings = {
        warning for outcome in outcomes for made in outcome.made for warning in made.warnings
    }
    findings = tuple(sorted(problems | warnings))
    sys.stdout.write(
        FORMATS[style.form](
            replace(_page(project, Report(notes=notes), findings, style), told=notes)
        )
    )
    if not style.quiet and style.form == "text":
        sys.stderr.write(f"{len(outcomes)} modular files, {len(findings)} findings\n")
    # What lint alone finds it was asked for; the warnings of `convert` stop nobody here either.
    return exit_code(findings) or int(bool(problems))


def _page(project: Project, report: Report, findings: tuple[Problem, ...], style: Style) -> Page:
    rows = tuple(Row(v.shown, v.modular, v.status.value, v.why, v.diff) for v in report.verdicts)
    return Page(
        rows=rows,
        findings=findings,
        notes=report.notes,
        verbose=style.verbose,
        quiet=style.quiet,
        refused=len(report.refused),
        base=_base(project),
    )


def _base(project: Project) -> str:
    """What leads from the top of the repository to the project, for annotations."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    top = Path(workspace).resolve() if workspace else project.home
    inner = project.home.relative_to(top).as_posix() if project.home.is_relative_to(top) else "."
    return "" if inner == "." else f"{inner}/"
