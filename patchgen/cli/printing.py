"""What a command prints, and on which stream."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.batch.outcome import Outcome
from patchgen.cli.report import FORMATS, Page, Row, exit_code, table
from patchgen.errors import Problem
from patchgen.gate.convert import Written
from patchgen.gate.drift import Drift
from patchgen.gate.verdict import Report, Status, Verdict
from patchgen.project.files import Found, Project


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
    project: Project, report: Report, style: Style, drifts: tuple[Drift, ...] = (), *, with_diff: bool = False
) -> int:
    """Print the gate's report, and what becomes of variants under another release."""
    findings = report.findings
    page = replace(_page(project, report, findings, style), drifts=drifts)
    if with_diff and style.form == "text":
        sys.stdout.write("".join(verdict.diff for verdict in report.verdicts))
        sys.stderr.write(FORMATS["text"](page))
    else:
        sys.stdout.write(FORMATS[style.form](page))
    return exit_code(findings)


def written(project: Project, result: Written, style: Style) -> int:
    """Print what was written, and what stood in the way."""
    findings = result.remaining
    if style.form != "text":
        sys.stdout.write(FORMATS[style.form](_page(project, result.report, findings, style)))
        return exit_code(findings)
    reasons = {verdict.shown: verdict for verdict in result.report.verdicts}
    if not style.quiet:
        for path in result.written:
            sys.stderr.write(f"wrote {path}{_because(reasons.get(path))}\n")
        for path in result.removed:
            sys.stderr.write(f"removed {path}\n")
    sys.stdout.write(FORMATS["text"](_page(project, Report(notes=result.report.notes), findings, style)))
    if not style.quiet:
        kept = sum(verdict.status is Status.OK for verdict in result.report.verdicts)
        sys.stderr.write(f"{len(result.written)} written, {len(result.removed)} removed, {kept} unchanged\n")
    return exit_code(findings)


def _because(verdict: Verdict | None) -> str:
    return f" ({'; '.join(verdict.why)})" if verdict is not None and verdict.why else ""


def listed(report: Report) -> int:
    """Print the table of what was made."""
    heads = ("output", "modular lines", "equal to parent", "generated lines", "classes", "parents", "status")
    rows = [
        (
            verdict.shown,
            str(made.summary.modular_lines),
            str(made.summary.equal_lines),
            str(made.size),
            ", ".join(made.summary.classes),
            ", ".join(parent.rpartition(".")[2] for parent in made.summary.parents),
            verdict.status.value,
        )
        for verdict in report.verdicts
        if (made := verdict.made) is not None
    ]
    sys.stdout.write(table(heads, rows))
    sys.stderr.write("".join(f"{problem}\n" for problem in report.problems))
    return exit_code(report.problems)


def linted(project: Project, found: Found, outcomes: Sequence[Outcome], style: Style) -> int:
    """Print what is wrong with declarations."""
    problems = {*found.problems, *(problem for outcome in outcomes for problem in outcome.problems)}
    notes = tuple(note for outcome in outcomes for made in outcome.made for note in made.notes)
    findings = tuple(sorted(problems))
    sys.stdout.write(FORMATS[style.form](_page(project, Report(notes=notes), findings, style)))
    if not style.quiet and style.form == "text":
        sys.stderr.write(f"{len(outcomes)} modular files, {len(findings)} findings\n")
    return exit_code(findings) or int(bool(findings))  # a warning is what lint is asked for


def _page(project: Project, report: Report, findings: tuple[Problem, ...], style: Style) -> Page:
    rows = tuple(Row(v.shown, v.modular, v.status.value, v.why, v.diff) for v in report.verdicts)
    return Page(
        rows=rows,
        findings=findings,
        notes=report.notes,
        verbose=style.verbose,
        quiet=style.quiet,
        base=_base(project),
    )


def _base(project: Project) -> str:
    """What leads from the top of the repository to the project, for annotations."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    top = Path(workspace).resolve() if workspace else project.home
    inner = project.home.relative_to(top).as_posix() if project.home.is_relative_to(top) else "."
    return "" if inner == "." else f"{inner}/"
