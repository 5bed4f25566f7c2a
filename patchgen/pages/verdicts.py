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
from patchgen.project import parity
from patchgen.project.verdict import Report, Status

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
    problems = []
    for verdict in checked.verdicts:
        if verdict.modular == variant.modular and verdict.status is not Status.OK:
            problems.append(str(verdict.problem))
    gate = Verdict("check", "good", "up to date")
    if problems:
        gate = Verdict("check", "bad", "not up to date", tuple(problems))
    models = judge_models(verified, variant.name, home, variant.modular)
    gains = judge_gains(home, variant.name)
    return [gate, models] if gains is None else [gate, models, gains]


def read_report(folder: Path | None, home: Path) -> Mapping[str, Any]:
    """The report of `verify` in `folder`, else the one that the project keeps; {} without one.

    Raises PatchgenError PG914 for one that cannot be read.
    """
    kept = home / parity.FOLDER
    if folder is None and not (kept / parity.FILE).is_file():
        return {}
    return parity.read_report(kept if folder is None else folder)


def judge_gains(home: Path, variant: str) -> Verdict | None:
    """What `variant` takes relative to its competitor, full and padded, by the project's table."""
    if not (home / GAINS).is_file():
        return None
    table = disk.text_of(home / GAINS)
    memory: dict[str, None] = {}
    flops: dict[str, None] = {}
    details = []
    for name, competitor, padding, kept, computed in _GAIN.findall(table):
        if name == variant:
            memory[kept.strip("*")] = None
            flops[computed.strip("*")] = None
            details.append(f"beside {competitor}, {padding} % padding: {kept}, {computed}")
    if not details:
        return None
    text = f"memory {' / '.join(memory)}, FLOPs {' / '.join(flops)}"
    # Never "good": the table does not say of which files it is.
    return Verdict("gains", "none", text, tuple(details))


def judge_models(report: Mapping[str, Any], variant: str, home: Path, modular: str) -> Verdict:
    """The verdict of `verify`: what failed, how it was run, how much of the change was tested.

    A report of other files than the project's has no verdict.
    """
    cases = [case for case in report.get("cases", ()) if case["variant"] == variant]
    hint = f"run `patchgen verify {variant} --out DIR`"
    if not cases:
        return Verdict("verify", "none", "no report", (hint,))
    if not parity.is_about(report, variant, home, modular):
        is_stale = variant in report["about"]
        text = "stale: its files have changed since" if is_stale else "not of this file"
        return Verdict("verify", "none", text, (hint,))
    counts = Counter(case["status"] for case in cases)
    level = "good"
    if counts["WARN"]:
        level = "doubtful"
    if counts["FAIL"]:
        level = "bad"
    counted = [f"{counts[s]} {s}" for s in ("PASS", "WARN", "FAIL") if counts[s]]
    versions = ", ".join(f"{name} {at}" for name, at in report["versions"].items())
    details = [f"{report['command']} on {report['device']}; {versions}"]
    for case in cases:
        if case["case"] in _SHARES:
            details.append(f"{case['case']}: {case['note']}")
    for case in cases:
        if case["status"] in ("FAIL", "WARN"):
            details.append(f"{case['status']} {case['case']}: {case['note']}")
    return Verdict("verify", level, ", ".join(counted), tuple(details))
