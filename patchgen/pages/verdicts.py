"""What `check`, `verify` and the table of gains say of a variant, for the top of its page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen import disk
from patchgen.pages.trace import Variant
from patchgen.project.verdict import Report, Status
from patchgen.syntax.errors import Location, PatchgenError

# Where this project keeps the report that `patchgen verify --report` writes.
REPORT = Path("docs/parity")
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


def judge_variant(
    variant: Variant, checked: Report, verified: Mapping[str, Any], home: Path
) -> list[Verdict]:
    """What is known of `variant`, the gate's word first."""
    verdicts = [verdict for verdict in checked.verdicts if verdict.modular == variant.modular]
    wrong = tuple(str(verdict.problem) for verdict in verdicts if verdict.status is not Status.OK)
    gate = Verdict("check", "good", "up to date")
    if wrong:
        gate = Verdict("check", "bad", "not up to date", wrong)
    gains = judge_gains(home, variant.name)
    return [gate, judge_models(verified, variant.name), *([gains] if gains is not None else [])]


def read_report(folder: Path | None, home: Path) -> Mapping[str, Any]:
    """The report of `verify` in `folder`, else the one that the project keeps; {} without one.

    Raises PatchgenError PG914 where `folder` has none that can be read.
    """
    path = (folder if folder is not None else home / REPORT) / "parity.json"
    if folder is None and not path.is_file():
        return {}
    try:
        report = disk.read_json(path)
    except (OSError, ValueError):
        report = None
    if not isinstance(report, dict) or not isinstance(report.get("cases"), list):
        what = "is not what `patchgen verify --report DIR` writes"
        raise PatchgenError("PG914", Location(str(path)), what, "name its output")
    return report


def judge_gains(home: Path, variant: str) -> Verdict | None:
    """What `variant` takes relative to its competitor, full and padded, by the project's table."""
    if not (home / GAINS).is_file():
        return None
    table = disk.text_of(home / GAINS)
    rows = [row for row in _GAIN.findall(table) if row[0] == variant]
    if not rows:
        return None
    figures = [dict.fromkeys(row[at].strip("*") for row in rows) for at in (3, 4)]
    text = "memory {}, FLOPs {}".format(*map(" / ".join, figures))
    details = [f"beside {row[1]}, {row[2]} % padding: {row[3]}, {row[4]}" for row in rows]
    return Verdict("gains", "good" if "**" in str(rows) else "none", text, tuple(details))


def judge_models(report: Mapping[str, Any], variant: str) -> Verdict:
    """The verdict of `verify`: what failed, how it was run, how much of the change was tested."""
    cases = [case for case in report.get("cases", ()) if case["variant"] == variant]
    if not cases:
        hint = f"run `patchgen verify {variant} --report DIR`"
        return Verdict("verify", "none", "no report", (hint,))
    counts = Counter(case["status"] for case in cases)
    text = ", ".join(f"{counts[s]} {s}" for s in ("PASS", "WARN", "FAIL") if counts[s])
    level = "bad" if counts["FAIL"] else "doubtful" if counts["WARN"] else "good"
    versions = ", ".join(f"{name} {at}" for name, at in report.get("versions", {}).items())
    command, device = report.get("command", "patchgen verify"), report.get("device", "?")
    lines = [f"{command} on {device}; {versions}"]
    lines += [f"{case['case']}: {case['note']}" for case in cases if case["case"] in _SHARES]
    poor = [case for case in cases if case["status"] in ("FAIL", "WARN")]
    lines += [f"{case['status']} {case['case']}: {case['note']}" for case in poor]
    return Verdict("verify", level, text, tuple(lines))
