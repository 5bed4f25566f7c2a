"""What the commands on outputs print: text for people, JSON for programs, notes for GitHub."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import patchgen
from patchgen.budget import FINDING, FINDINGS, REPORT, exceeded, is_unlimited
from patchgen.cli import terminal
from patchgen.cli.formats import as_junit, as_sarif
from patchgen.compiler.flat import Note
from patchgen.project.verdict import Report, Status, Verdict, named
from patchgen.syntax.errors import Problem
from patchgen.syntax.shown import shown, shown_line

if TYPE_CHECKING:
    from patchgen.project.convert import Written
    from patchgen.project.drift import Drift
    from patchgen.project.files import Project, Selection
    from patchgen.project.outcome import Outcome
    from patchgen.project.overrides import StaleOverride

SCHEMA = 1  # of JSON: raised where a field that was there goes, or means something else
MOST_NOTES = 3  # notes of one file that are printed without --verbose


@dataclass(frozen=True, slots=True)
class Style:
    """How much is printed, and in which form."""

    quiet: bool = False
    verbose: bool = False
    form: str = "text"


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a report.

    `printed_notes` are printed without --verbose, all notes of the report with it.  `base` is put
    before every path of an annotation.
    """

    report: Report = field(default_factory=Report)
    findings: tuple[Problem, ...] = ()
    printed_notes: tuple[Note, ...] = ()
    drifts: tuple[Drift, ...] = ()
    style: Style = Style()
    base: str = ""
    command: str = "check"


def style_of(quiet: bool, verbose: bool, output_format: str | None, **_rest: Any) -> Style:
    """The style that the options ask for; the default on GitHub's runners is annotations."""
    default = "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"
    return Style(quiet, verbose, output_format or default)


def print_checked(
    project: Project,
    report: Report,
    style: Style,
    drifts: tuple[Drift, ...],
    linted: Sequence[Outcome],
    *,
    with_diff: bool,
) -> int:
    """Print the report of the gate, and whether variants still fit another release.

    `linted` has the findings of lint, each of which fails.
    """
    of_lint = set[Problem]().union(*(outcome.problems for outcome in linted))
    findings = capped(sorted(of_lint.union(report.findings)) if of_lint else report.findings)
    notes = _notes_without_output(report)
    page = Page(report, findings, notes, drifts, style, _base(project))
    if with_diff and style.form == "text":
        terminal.write("".join(verdict.diff for verdict in report.verdicts))
        terminal.write(as_text(page), err=True)
    else:
        _write(page)
    return exit_code(findings) or int(bool(of_lint) or any(drift.is_gone for drift in drifts))


def print_written(project: Project, result: Written, style: Style) -> int:
    """Print what was written, and the problems that remain."""
    findings = capped(result.remaining)
    report = result.report
    if style.form != "text":
        _write(Page(report, findings, style=style, base=_base(project), command="convert"))
        return exit_code(findings)
    reasons = {verdict.display_path: verdict.why for verdict in report.verdicts}
    lines = []
    for path in result.written:
        why = "; ".join(reasons.get(path, ()))
        lines.append(f"wrote {path} ({why})" if why else f"wrote {path}")
    lines += [f"removed {path}" for path in result.removed]
    lines += [f"accepted {s.override.name} of {s.modular}" for s in report.overrides.accepted]
    lines += [f"updated {name}" for name in result.recorded]
    if not style.quiet:
        terminal.write_lines(lines, err=True)
    notes = list(_notes_without_output(report))
    for verdict in report.verdicts:
        # Of the outputs that this run has changed.
        is_changed = verdict.status is not Status.UNRECORDED
        if verdict.display_path in result.repaired and verdict.output is not None and is_changed:
            notes += verdict.output.notes
    _write(Page(Report(notes=report.notes), findings, tuple(notes), style=style))
    if not style.quiet:
        terminal.say(_summary(result, findings), err=True)
    return exit_code(findings)


def print_linted(
    project: Project, selection: Selection, outcomes: Sequence[Outcome], style: Style
) -> int:
    """Print what is wrong with declarations."""
    problems = set(selection.problems)
    warnings: set[Problem] = set()
    notes: list[Note] = []
    for outcome in outcomes:
        problems.update(outcome.problems)
        for output in outcome.outputs:
            warnings.update(output.warnings)
            notes += output.notes
    findings = capped(sorted(problems | warnings))
    report = Report(notes=tuple(notes))
    _write(Page(report, findings, report.notes, (), style, _base(project), "lint"))
    if not style.quiet and style.form == "text":
        counted = [plural(len(outcomes), "modular file"), plural(len(findings), "finding")]
        terminal.say(", ".join(counted), err=True)
    # Every finding of lint itself fails; the warnings that `convert` also prints do not.
    return exit_code(findings) or int(bool(problems))


def _write(page: Page) -> None:
    match page.style.form:
        case "json":
            print_json(page.command, as_data(page))
        case "github":
            terminal.write_annotations(as_github(page))
        case "sarif":
            terminal.write_json(as_sarif(page.findings, page.base))
        case "junit":
            terminal.write(as_junit(page.report.verdicts, page.findings))
        case _:
            terminal.write(as_text(page))


def _notes_without_output(report: Report) -> tuple[Note, ...]:
    """The notes on modular files that have no output: they are repeated until that is fixed."""
    outputs = [verdict.output for verdict in report.verdicts if verdict.output is not None]
    of_outputs = set[Note]().union(*(output.notes for output in outputs))
    return tuple(note for note in report.notes if note not in of_outputs)


def _summary(result: Written, findings: Sequence[Problem]) -> str:
    statuses = [verdict.status for verdict in result.report.verdicts]
    kept = statuses.count(Status.OK) + statuses.count(Status.UNRECORDED)
    done = f"{len(result.written)} written, {len(result.removed)} removed, {kept} unchanged"
    errors = [problem for problem in findings if problem.severity == "error"]
    if not errors:
        return done
    files = {problem.at.path for problem in errors}
    places = plural(len(files), "file")
    failed = f"{plural(len(errors), 'error')} in {places}"
    if result.written or result.removed:
        return f"{done}; {failed}"
    # Records may have been brought up to date, which has been printed above.
    nothing = "no output" if result.recorded else "nothing"
    return f"{nothing} written: {failed}"


def _base(project: Project) -> str:
    """The path from the top of the repository to the project, for annotations."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    top = Path(workspace).resolve() if workspace else project.home
    if top not in project.home.parents:
        return ""
    return f"{project.home.relative_to(top).as_posix()}/"


def capped(findings: Sequence[Problem]) -> tuple[Problem, ...]:
    """`findings`, or the first of them with a last one that says how many there are."""
    if is_unlimited():
        return tuple(findings)
    kept: list[Problem] = []
    room = REPORT
    for finding in findings[:FINDINGS]:
        if len(str(finding)) > FINDING:
            what = finding.what[: FINDING // 2]
            hint = finding.hint[: FINDING // 2]
            finding = replace(finding, what=f"{what} ...", hint=hint)
        room -= len(str(finding))
        if room < 0:
            break
        kept.append(finding)
    if len(kept) < len(findings):
        at = findings[len(kept)].at
        left_out = len(findings) - len(kept)
        what = f"{len(findings):,} findings are too many: {left_out:,} are left out"
        kept.append(exceeded(at, what).problem)
    return tuple(kept)


# A name on the command line that stands for nothing (a model, a part, a model to train or predict),
# and what a run asks for that cannot be read here, or done on this machine.
OF_A_RUN = ("PG811", "PG812", "PG813", "PG814", "PG815", "PG816")
OF_COMMAND_LINE = ("PG801", "PG802", *OF_A_RUN, "PG824")


def exit_code(findings: Iterable[Problem]) -> int:
    """0 without errors, 1 if the user's files have one, 2 if patchgen could not do its work.

    2 is also for a name of nothing, as for every wrong usage; 3 if a limit was reached.
    """
    codes = [problem.code for problem in findings if problem.severity == "error"]
    if "PG915" in codes:
        return 3
    if any(code.startswith("PG9") or code in OF_COMMAND_LINE for code in codes):
        return 2
    return 1 if codes else 0


def as_text(page: Page) -> str:
    """Whether variants fit another release, the findings, notes, and a line that counts outputs."""
    report = page.report
    style = page.style
    lines: list[str] = []
    for drift in page.drifts:
        lines += _drift_lines(drift, style.verbose)
    lines += map(str, page.findings)
    if style.verbose:
        for verdict in report.verdicts:
            if verdict.status is Status.OK:
                lines.append(f"{verdict.display_path}: ok (from {verdict.modular})")
        for parents in report.parents:
            lines.append(f"{parents.package}: parents come from {parents.path}")
        lines += _note_lines(report.notes, len(report.notes))
    elif not style.quiet:
        lines += _note_lines(page.printed_notes, MOST_NOTES)
    if (report.verdicts or report.refused) and not style.quiet:
        lines.append(_counted(report))
    return "".join(f"{line}\n" for line in lines)


def _note_lines(notes: Iterable[Note], limit: int) -> list[str]:
    """At most `limit` notes of each file, and how many more there are."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for note in dict.fromkeys(notes):
        line = shown_line(f"{note.at}: note: {note.what}")
        by_file[note.at.path].append(line)
    lines = []
    for path, of_file in by_file.items():
        lines += of_file[:limit]
        more = len(of_file) - limit
        if more > 0:
            lines.append(f"{path}: {plural(more, 'more note')}; -v shows them")
    more = len(lines) - FINDINGS
    if more > 0 and not is_unlimited():
        lines[FINDINGS:] = [f"{plural(more, 'line')} of notes left out"]
    return lines


def _counted(report: Report) -> str:
    counts = Counter(verdict.status.value for verdict in report.verdicts)
    parts = [f"{count} {status}" for status, count in counts.items()]
    parts.sort(key=lambda part: not part.endswith(" ok"))
    counted = []
    if parts:
        counted.append(f"{plural(len(report.verdicts), 'output')}: {', '.join(parts)}")
    if report.refused:
        counted.append(f"{plural(len(report.refused), 'modular file')} refused")
    return "; ".join(counted)


def plural(count: int, noun: str) -> str:
    """`count` and the noun, "1 file" or "2 files"."""
    return f"{count} {noun}{'s'[: count != 1]}"


def _drift_lines(drift: Drift, verbose: bool) -> list[str]:
    """Whether a variant still fits, and what changed upstream if it does not."""
    changed = named([change.symbol for change in drift.changes if not change.gone])
    gone = named([change.symbol for change in drift.changes if change.gone])
    parts = [str(drift.fit)]
    if changed:
        parts.append(f"upstream changed {changed}")
    if gone:
        parts.append(f"upstream has no {gone}")
    lines = [f"{drift.modular}: {'; '.join(parts)}"]
    if verbose or drift.fit.needs_work:
        lines += [change.diff.rstrip("\n") for change in drift.changes if change.diff]
    return lines


def as_data(page: Page) -> dict[str, Any]:
    """For JSON: `outputs`, `problems` and `notes`.

    With --package-root also `drift`, where parents of overrides changed, `overrides`, where parents
    are the project's, `parents`, and with --base, `changes`.
    """
    report = page.report
    data: dict[str, Any] = {
        "outputs": [_verdict_data(verdict) for verdict in report.verdicts],
        "problems": [problem.data() for problem in page.findings],
        "notes": [{**asdict(note.at), "message": note.what} for note in report.notes],
    }
    if page.drifts:
        data["drift"] = [_drift_data(drift) for drift in page.drifts]
    if report.parents:
        data["parents"] = [parents.data() for parents in report.parents]
    if report.changes:
        data["changes"] = [change.data() for change in report.changes]
    if report.overrides.stale:
        data["overrides"] = [_override_data(stale) for stale in report.overrides.stale]
    return data


def _verdict_data(verdict: Verdict) -> dict[str, Any]:
    return {
        "path": verdict.display_path,
        "modular": verdict.modular,
        "status": verdict.status.value,
        "why": list(verdict.why),
        "diff": verdict.diff,
    }


def _drift_data(drift: Drift) -> dict[str, Any]:
    changes = [asdict(change) for change in drift.changes]
    return {"modular": drift.modular, "fit": drift.fit.value, "upstream": changes}


def _override_data(stale: StaleOverride) -> dict[str, Any]:
    return {
        **asdict(stale.problem.at),
        "override": stale.override.name,
        "parent": stale.override.parent or stale.before.symbol,
        "gone": not stale.override.parent,
        "diff": stale.diff,
    }


def print_json(command: str, data: Mapping[str, Any]) -> None:
    """Print what `command` found, as schema.json beside this module describes it."""
    envelope = {"version": patchgen.__version__, "schema": SCHEMA, "command": command}
    text = json.dumps(envelope | dict(data), indent=2, ensure_ascii=False)
    terminal.write_json(f"{text}\n")


def as_github(page: Page) -> list[str]:
    """One workflow command for each finding, which GitHub shows at the line."""
    return [_annotation(problem, page.base) for problem in page.findings]


def _annotation(problem: Problem, base: str) -> str:
    kind = "error" if problem.severity == "error" else "warning"
    fields = {"title": f"patchgen ({problem.code})", "file": f"{base}{problem.at.path}"}
    if problem.at.line:
        fields |= {"line": str(problem.at.line), "col": str(problem.at.column)}
    properties = ",".join(f"{name}={_escape(value, ',:')}" for name, value in fields.items())
    # The text repeats the place, because a log shows only what follows the second pair of colons.
    return f"::{kind} {properties}::{_escape(str(problem))}"


def _escape(text: str, more: str = "") -> str:
    """`text` as the value of a workflow command; `more` are the letters that end a property."""
    ended = f"%\r\n{more}"
    return shown("".join(f"%{ord(char):02X}" if char in ended else char for char in text))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned by spaces; columns of numbers, or `-`, are aligned to the right."""
    columns: list[list[str]] = []
    for column in zip(heads, *rows, strict=True):
        width = max(map(len, column))
        align = str.rjust if all(map(_is_number, column[1:])) else str.ljust
        columns.append([align(cell, width) for cell in column])
    text = ""
    for cells in zip(*columns, strict=True):
        line = "  ".join(cells)
        text += f"{line.rstrip()}\n"
    return text


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").isdigit()
