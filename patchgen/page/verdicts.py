"""What `patchgen check` and `patchgen verify` say of a variant, for the top of its page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen.errors import Location, PatchgenError
from patchgen.project.gate.verdict import Report, Status

# Where this project keeps the report that `patchgen verify --report` writes.
REPORT = Path("docs/parity")
_NAME = "parity.json"
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
    path = (folder if folder is not None else home / REPORT) / _NAME
    if folder is None and not path.is_file():
        return {}
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(read, dict) and isinstance(read["cases"], list)
    except (OSError, ValueError, KeyError, AssertionError) as error:
        what = "is no report of `patchgen verify`"
        hint = "name the folder that was given to `patchgen verify --report`"
        raise PatchgenError("PG914", Location(str(path)), what, hint) from error
    return read


def judge_models(report: Mapping[str, Any], variant: str) -> Verdict:
    """What `verify` said of `variant`."""
    cases = [case for case in report.get("cases", ()) if case["variant"] == variant]
    if not cases:
        hint = f"run `patchgen verify {variant} --report DIR`"
        return Verdict("verify", "none", "no report", (hint,))
    counts = Counter(case["status"] for case in cases)
    text = ", ".join(f"{counts[s]} {s}" for s in ("PASS", "WARN", "FAIL") if counts[s])
    level = "bad" if counts["FAIL"] else "doubtful" if counts["WARN"] else "good"
    return Verdict("verify", level, text, tuple(_details(report, cases)))


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
