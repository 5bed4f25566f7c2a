"""Findings in four forms: text for people, JSON and SARIF for programs, annotations for GitHub.

Values in, a string out; the commands print it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import patchgen
from patchgen.compiler.flat import Note
from patchgen.project.overrides import StaleOverride
from patchgen.project.verdict import named
from patchgen.syntax.errors import Problem, catalogue

if TYPE_CHECKING:
    from patchgen.project.drift import Drift

MOST_NOTES = 3  # notes of one file that are printed without --verbose


@dataclass(frozen=True, slots=True)
class Row:
    """One output in a report: its status and why; `diff` leads to what it should be."""

    path: str
    modular: str
    status: str
    why: tuple[str, ...] = ()
    diff: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a report.

    `notes` are all of them; `printed_notes` are those that are printed without --verbose.
    `refused` counts modular files with errors.  `base` is put before every path of an annotation.
    """

    rows: tuple[Row, ...] = ()
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
            f"{row.path}: {row.status} (from {row.modular})"
            for row in page.rows
            if row.status == "ok"
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
    counts = Counter(row.status for row in page.rows)
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
            "path": row.path,
            "modular": row.modular,
            "status": row.status,
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


def as_sarif(page: Page) -> str:
    """SARIF 2.1.0, with the explanation of each code that occurs."""
    codes = sorted({problem.code for problem in page.findings})
    driver = {
        "name": "patchgen",
        "version": patchgen.__version__,
        "rules": [_rule(code) for code in codes],
    }
    results = [_result(problem, page.base) for problem in page.findings]
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    log = {"$schema": schema, "version": "2.1.0", "runs": [run]}
    return json_text(log)


def _rule(code: str) -> dict[str, Any]:
    known = catalogue().get(code)
    if known is None:
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.why},
        "help": {"text": known.fix},
    }


def _result(problem: Problem, base: str) -> dict[str, Any]:
    where: dict[str, Any] = {"artifactLocation": {"uri": f"{base}{problem.at.path}"}}
    if problem.at.line:
        where["region"] = {"startLine": problem.at.line, "startColumn": max(problem.at.column, 1)}
    message = f"{problem.what}\n{problem.hint}" if problem.hint else problem.what
    level = "error" if problem.severity == "error" else "warning"
    return {
        "ruleId": problem.code,
        "level": level,
        "message": {"text": message},
        "locations": [{"physicalLocation": where}],
    }


FORMATS: Mapping[str, Callable[[Page], str]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
    "sarif": as_sarif,
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
