"""Findings in three forms: text for people, JSON for programs, annotations for GitHub.

Values in, a string out; the commands print it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import patchgen
from patchgen.compiler.flat import Note
from patchgen.project.overrides import StaleOverride
from patchgen.project.verdict import Status, Verdict, named
from patchgen.syntax.errors import Problem

if TYPE_CHECKING:
    from patchgen.project.drift import Drift

MOST_NOTES = 3  # notes of one file that are printed without --verbose


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a report.

    `notes` are all of them; `printed_notes` are those that are printed without --verbose.
    `refused` counts modular files with errors.  `base` is put before every path of an annotation.
    """

    rows: tuple[Verdict, ...] = ()
    drifts: tuple[Drift, ...] = ()
    findings: tuple[Problem, ...] = ()
    notes: tuple[Note, ...] = ()
    printed_notes: tuple[Note, ...] = ()
    refused: int = 0
    stale: tuple[StaleOverride, ...] = ()
    verbose: bool = False
    quiet: bool = False
    base: str = ""


def exit_code(findings: Iterable[Problem]) -> int:
    """0 without errors, 1 if the user's files have one, 2 if patchgen could not do its work."""
    codes = [problem.code for problem in findings if problem.severity == "error"]
    if any(code.startswith("PG9") for code in codes):
        return 2
    return 1 if codes else 0


def as_text(page: Page) -> str:
    """Whether variants fit another release, the findings, notes, and a line that counts outputs."""
    lines = [line for drift in page.drifts for line in _drift_lines(drift, page.verbose)]
    lines += [str(problem) for problem in page.findings]
    if page.verbose:
        lines += [
            f"{row.display_path}: ok (from {row.modular})"
            for row in page.rows
            if row.status is Status.OK
        ]
    if page.verbose:
        lines += _note_lines(page.notes, len(page.notes))
    elif not page.quiet:
        lines += _note_lines(page.printed_notes, MOST_NOTES)
    if (page.rows or page.refused) and not page.quiet:
        lines.append(_counted(page))
    return "".join(f"{line}\n" for line in lines)


def _note_lines(notes: Iterable[Note], limit: int) -> list[str]:
    """At most `limit` notes of each file, and how many more there are."""
    by_file: dict[str, list[Note]] = {}
    for note in dict.fromkeys(notes):
        by_file.setdefault(note.at.path, []).append(note)
    lines = []
    for path, of_file in by_file.items():
        lines += [f"{note.at}: note: {note.what}" for note in of_file[:limit]]
        if len(of_file) > limit:
            lines.append(f"{path}: {plural(len(of_file) - limit, 'more note')}; -v shows them")
    return lines


def _counted(page: Page) -> str:
    counts = Counter(row.status.value for row in page.rows)
    parts = [
        f"{count} {status}"
        for status, count in sorted(counts.items(), key=lambda pair: pair[0] != "ok")
    ]
    outputs = [f"{plural(len(page.rows), 'output')}: {', '.join(parts)}"] if page.rows else []
    refused = [f"{plural(page.refused, 'modular file')} refused"] if page.refused else []
    return "; ".join([*outputs, *refused])


def plural(count: int, noun: str) -> str:
    """`count` and the noun, "1 file" or "2 files"."""
    return f"{count} {noun}{'s'[: count != 1]}"


def _drift_lines(drift: Drift, verbose: bool) -> list[str]:
    """Whether a variant still fits, and what changed upstream if it does not."""
    changed = named([change.symbol for change in drift.changes if not change.gone])
    gone = named([change.symbol for change in drift.changes if change.gone])
    parts = [
        str(drift.fit),
        f"upstream changed {changed}" if changed else "",
        f"upstream has no {gone}" if gone else "",
    ]
    lines = [f"{drift.modular}: {'; '.join(part for part in parts if part)}"]
    if verbose or drift.fit.needs_work:
        lines += [change.diff.rstrip("\n") for change in drift.changes if change.diff]
    return lines


def as_json(page: Page) -> str:
    """One object: `outputs`, `problems` and `notes`.

    With --package-root also `drift`, and where parents of overrides changed, `overrides`.
    """
    outputs = [
        {
            "path": row.display_path,
            "modular": row.modular,
            "status": row.status.value,
            "why": list(row.why),
            "diff": row.diff,
        }
        for row in page.rows
    ]
    problems = [
        {**_place(p), "code": p.code, "severity": p.severity, "message": p.what, "hint": p.hint}
        for p in page.findings
    ]
    notes = [
        {"path": n.at.path, "line": n.at.line, "column": n.at.column, "message": n.what}
        for n in page.notes
    ]
    whole = {
        "patchgen": patchgen.__version__,
        "outputs": outputs,
        "problems": problems,
        "notes": notes,
    }
    if page.drifts:
        whole["drift"] = [_drift(drift) for drift in page.drifts]
    if page.stale:
        whole["overrides"] = [_stale_override(stale) for stale in page.stale]
    return json_text(whole)


def json_text(data: object) -> str:
    """The text of `data` as all commands print JSON."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _drift(drift: Drift) -> dict[str, Any]:
    changes = [
        {"symbol": change.symbol, "gone": change.gone, "diff": change.diff}
        for change in drift.changes
    ]
    return {"modular": drift.modular, "fit": drift.fit.value, "upstream": changes}


def _stale_override(stale: StaleOverride) -> dict[str, Any]:
    return {
        **_place(stale.problem),
        "override": stale.override.name,
        "parent": stale.override.parent or stale.before.symbol,
        "gone": not stale.override.parent,
        "diff": stale.diff,
    }


def _place(problem: Problem) -> dict[str, Any]:
    return {"path": problem.at.path, "line": problem.at.line, "column": problem.at.column}


def as_github(page: Page) -> str:
    """One workflow command for each finding, which GitHub shows at the line."""
    return "".join(f"{_annotation(problem, page.base)}\n" for problem in page.findings)


def _annotation(problem: Problem, base: str) -> str:
    kind = "error" if problem.severity == "error" else "warning"
    fields = {"title": f"patchgen ({problem.code})", "file": f"{base}{problem.at.path}"}
    if problem.at.line:
        fields |= {"line": str(problem.at.line), "col": str(problem.at.column)}
    properties = ",".join(f"{name}={_escape(value, ',:')}" for name, value in fields.items())
    # The text repeats the place, because a log shows only what follows the second pair of colons.
    return f"::{kind} {properties}::{_escape(str(problem))}"


def _escape(text: str, more: str = "") -> str:
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{more}" else char for char in text)


FORMATS: Mapping[str, Callable[[Page], str]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
}


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned by spaces; columns of numbers, or `-`, are aligned to the right."""
    columns = list(zip(heads, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [
        all(cell.replace(",", "").isdigit() or cell == "-" for cell in column[1:])
        for column in columns
    ]
    lines = []
    for cells in [heads, *rows]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "".join(f"{line}\n" for line in lines)
