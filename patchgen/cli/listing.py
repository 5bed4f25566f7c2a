"""The table of `patchgen list`: the size of each variant beside what it adds to its parent."""

from __future__ import annotations

import sys
import tokenize
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from patchgen.cli.report import exit_code, json_text, table
from patchgen.project.outcome import Outcome
from patchgen.project.verdict import Report, Status, Verdict
from patchgen.syntax.lines import code_lines


@dataclass(frozen=True, slots=True)
class Listed:
    """One modular file and its outputs; `compared` is false for a new model, which has no diff."""

    variant: str
    modular: str
    declared: int
    added: int
    removed: int
    output: int
    compared: bool
    status: str
    outputs: tuple[str, ...]
    classes: tuple[str, ...]
    parents: tuple[str, ...]


def print_variants(report: Report, form: str) -> int:
    """Print the variants with their sizes, and problems on stderr."""
    rows = list_variants(report)
    if form == "json" or rows:
        sys.stdout.write(_as_json(rows) if form == "json" else _as_text(rows))
    sys.stderr.write("".join(f"{problem}\n" for problem in report.problems))
    return exit_code(report.problems)


def list_variants(report: Report) -> list[Listed]:
    """One row for each modular file that has an output, in the order of the report."""
    rows = []
    for outcome in report.outcomes:
        verdicts = [
            v
            for v in report.verdicts
            if v.modular == outcome.modular.display_path and v.output is not None
        ]
        if verdicts:
            rows.append(_listed(outcome, verdicts))
    return rows


def _listed(outcome: Outcome, verdicts: Sequence[Verdict]) -> Listed:
    outputs = [verdict.output for verdict in verdicts if verdict.output is not None]
    classes: list[str] = []
    parents: dict[str, None] = {}
    for output in outputs:
        classes += output.summary.classes
        parents |= dict.fromkeys(output.summary.parents)
    # The first status that is not "ok" stands for the whole variant.
    bad = [verdict.status.value for verdict in verdicts if verdict.status is not Status.OK]
    text = outcome.modular.path.read_text(encoding="utf-8", errors="replace")
    return Listed(
        variant=outcome.modular.path.stem.removeprefix("modular_"),
        modular=outcome.modular.display_path,
        declared=_code_lines(text),
        added=sum(output.added for output in outputs),
        removed=sum(output.removed for output in outputs),
        output=sum(output.size for output in outputs),
        compared=any(output.diff_digest for output in outputs),
        status=bad[0] if bad else Status.OK.value,
        outputs=tuple(verdict.display_path for verdict in verdicts),
        classes=tuple(classes),
        parents=tuple(parents),
    )


def _code_lines(text: str) -> int:
    try:
        return code_lines(text)
    except (tokenize.TokenError, SyntaxError):
        return 0  # the file changed after its outputs were made: its status says that


def total_of(rows: Sequence[Listed]) -> dict[str, int]:
    """The sums over all variants."""
    return {
        "variants": len(rows),
        "declared": sum(row.declared for row in rows),
        "added": sum(row.added for row in rows),
        "removed": sum(row.removed for row in rows),
        "output": sum(row.output for row in rows),
    }


def _as_text(rows: Sequence[Listed]) -> str:
    total = total_of(rows)
    cells = [
        (
            row.variant,
            f"{row.declared:,}",
            f"{row.added:,}",
            f"{row.removed:,}" if row.compared else "-",
            f"{row.output:,}",
            row.status,
        )
        for row in rows
    ]
    last = (
        f"total of {total['variants']}",
        *(f"{total[name]:,}" for name in ("declared", "added", "removed", "output")),
        "",
    )
    return table(("variant", "declared", "added", "removed", "output", "status"), [*cells, last])


def _as_json(rows: Sequence[Listed]) -> str:
    listing = {"variants": [asdict(row) for row in rows], "total": total_of(rows)}
    return json_text(listing)
