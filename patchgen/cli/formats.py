"""The findings of a command in the forms of other tools: SARIF for code scanning, JUnit for CI."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import patchgen
from patchgen.project.verdict import Verdict
from patchgen.syntax.errors import Problem, catalogue
from patchgen.syntax.shown import shown

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_sarif(findings: Sequence[Problem], base: str) -> str:
    """One run with a result for each finding; `base` is put before every path."""
    known = catalogue()
    rules = []
    for code in sorted({finding.code for finding in findings}):
        title = {"text": known[code].title}
        rules.append({"id": code, "shortDescription": title})
    tool = {"name": "patchgen", "version": patchgen.__version__, "rules": rules}
    results = [_result_of(finding, base) for finding in findings]
    run = {"tool": {"driver": tool}, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _result_of(finding: Problem, base: str) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": f"{base}{finding.at.path}"}}
    if finding.at.line:
        column = max(1, finding.at.column)
        place["region"] = {"startLine": finding.at.line, "startColumn": column}
    return {
        "ruleId": finding.code,
        "level": "error" if finding.severity == "error" else "warning",
        "message": {"text": "\n".join(filter(None, (finding.message, finding.hint)))},
        "locations": [{"physicalLocation": place}],
    }


def as_junit(verdicts: Iterable[Verdict], findings: Sequence[Problem]) -> str:
    """A case for each output and each file with a finding; an error is a failure of its file."""
    # Imported here: it loads what speaks HTTP.
    from xml.sax.saxutils import escape, quoteattr

    files: dict[str, list[Problem]] = {verdict.display_path: [] for verdict in verdicts}
    for finding in findings:
        files.setdefault(finding.at.path, []).append(finding)
    cases: list[str] = []
    failures = 0
    for path, found in files.items():
        errors = [finding for finding in found if finding.severity == "error"]
        failures += bool(errors)
        cases.append(f'  <testcase classname="patchgen" name={quoteattr(shown(path))}>')
        if errors:
            text = shown("\n".join(map(str, found)))
            kinds = ", ".join(sorted({finding.code for finding in errors}))
            cases.append(f'    <failure message="{kinds}">{escape(text)}</failure>')
        cases.append("  </testcase>")
    head = f'<testsuite name="patchgen" tests="{len(files)}" failures="{failures}">'
    lines = ['<?xml version="1.0" encoding="utf-8"?>', head, *cases, "</testsuite>"]
    return "\n".join(lines) + "\n"
