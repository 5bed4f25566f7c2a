"""What `check`, `verify` and `survive` say of a variant, for the top of its page."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen.project.verdict import Report, Status
from patchgen.syntax.errors import Location, PatchgenError

# Where this project keeps the report that `patchgen verify --report` writes.
REPORT = Path("docs/parity")
_NAME = "parity.json"
GAINS = Path("docs/gains.md")  # what benchmarks/gains.py counts, as a table
_GAIN = re.compile(r"^\| `(\w+)` \| (?!Liger)(.+?) \|.* (\d+)% \| (.+?) \| (.+?) \|", re.MULTILINE)
# The cases that say how much of the change was tested.
_SHARES = ("changed lines", "mutants")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one command says: `level` is "good", "doubtful", "bad" or "none"."""

    command: str
    level: str
    text: str
    details: tuple[str, ...] = ()


def judge_outputs(report: Report, modular: str) -> Verdict:
    """What `check` says of the outputs of `modular`."""
    found = [verdict for verdict in report.verdicts if verdict.modular == modular]
    wrong = [str(verdict.problem) for verdict in found if verdict.status is not Status.OK]
    if wrong:
        return Verdict("check", "bad", "not up to date", tuple(wrong))
    return Verdict("check", "good", "up to date")


def read_report(folder: Path | None, home: Path) -> Mapping[str, Any]:
    """The report of `verify` in `folder`, else the one that the project keeps; {} without one.

    Raises PatchgenError PG914 where `folder` has none that can be read.
    """
    if folder is None and not (home / REPORT / _NAME).is_file():
        return {}
    path = (folder if folder is not None else home / REPORT) / _NAME
    return _read_json(path, "cases", "patchgen verify --report DIR")


def read_survey(path: Path | None) -> Mapping[str, Any]:
    """The report of `survive` at `path`; {} where none is named.

    Raises PatchgenError PG914 where it cannot be read.
    """
    command = "patchgen survive --output-format json"
    return {} if path is None else _read_json(path, "variants", command)


def _read_json(path: Path, rows: str, command: str) -> Mapping[str, Any]:
    """The object in the file at `path`, which has a list of `rows`."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        read = None
    if not isinstance(read, dict) or not isinstance(read.get(rows), list):
        what = f"is not what `{command}` writes"
        raise PatchgenError("PG914", Location(str(path)), what, "name its output")
    return read


def judge_gains(home: Path, variant: str) -> Verdict | None:
    """What `variant` takes relative to its competitor, full and padded, by the project's table."""
    if not (home / GAINS).is_file():
        return None
    table = (home / GAINS).read_text(encoding="utf-8")
    rows = [row for row in _GAIN.findall(table) if row[0] == variant]
    if not rows:
        return None
    names = ("memory", "FLOPs")
    figures = {name: [row[3 + n].strip("*") for row in rows] for n, name in enumerate(names)}
    text = ", ".join(f"{name} {' / '.join(dict.fromkeys(figures[name]))}" for name in names)
    details = [f"beside {row[1]}, {row[2]} % padding: {row[3]}, {row[4]}" for row in rows]
    return Verdict("gains", "good" if "**" in str(rows) else "none", text, tuple(details))


def judge_models(report: Mapping[str, Any], variant: str) -> Verdict:
    """The verdict of `verify` on `variant`."""
    cases = [case for case in report.get("cases", ()) if case["variant"] == variant]
    if not cases:
        hint = f"run `patchgen verify {variant} --report DIR`"
        return Verdict("verify", "none", "no report", (hint,))
    counts = Counter(case["status"] for case in cases)
    text = ", ".join(f"{counts[s]} {s}" for s in ("PASS", "WARN", "FAIL") if counts[s])
    level = "bad" if counts["FAIL"] else "doubtful" if counts["WARN"] else "good"
    return Verdict("verify", level, text, tuple(_details(report, cases)))


def judge_releases(survey: Mapping[str, Any], variant: str) -> Verdict:
    """The verdict of `survive` on `variant`."""
    row = next((row for row in survey["variants"] if row["variant"] == variant), None)
    if row is None:
        hint = f"run `patchgen survive {variant} --output-format json`"
        return Verdict("survive", "none", "not in the report", (hint,))
    states = row["states"]
    broken = [version for version in states if row["problems"].get(version)]
    text = f"converts on {len(states) - len(broken)} of {len(states)} releases"
    details = [
        f"{version}: {problem['path']}:{problem['line']}: {problem['code']} {problem['what']}"
        for version in broken
        for problem in row["problems"][version]
    ]
    spans = ", ".join(f"{version} {state}" for version, state in states.items())
    return Verdict("survive", "bad" if broken else "good", text, (spans, *details))


def _details(report: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """How it was run, how much of the change was tested, and what failed."""
    versions = ", ".join(f"{name} {at}" for name, at in report.get("versions", {}).items())
    lines = [
        f"{report.get('command', 'patchgen verify')} on {report.get('device', '?')}; {versions}"
    ]
    lines += [f"{case['case']}: {case['note']}" for case in cases if case["case"] in _SHARES]
    poor = [case for case in cases if case["status"] in ("FAIL", "WARN")]
    lines += [f"{case['status']} {case['case']}: {case['note']}" for case in poor]
    return lines
