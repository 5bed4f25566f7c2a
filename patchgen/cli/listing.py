"""The table of `patchgen list`: the size of each variant beside what it adds to its parent."""

from __future__ import annotations

import tokenize
from collections.abc import Sequence
from itertools import chain
from typing import Any

from patchgen import disk
from patchgen.cli import terminal
from patchgen.cli.report import exit_code, print_json, table
from patchgen.project.outcome import Outcome
from patchgen.project.verdict import Report, Status, Verdict
from patchgen.syntax.lines import code_lines

SIZES = ("declared", "added", "removed", "output")


def print_variants(report: Report, form: str) -> int:
    """Print the variants with their sizes, in the order of the report, and problems on stderr."""
    rows = []
    for outcome in report.outcomes:
        modular = outcome.modular.display_path
        verdicts = [v for v in report.verdicts if v.modular == modular and v.output is not None]
        if verdicts:
            rows.append(_row(outcome, verdicts))
    total = {"variants": len(rows)}
    for size in SIZES:
        total[size] = sum(row[size] for row in rows)
    if form == "json":
        print_json("list", {"variants": rows, "total": total})
    elif rows:
        cells = []
        for row in rows:
            sizes = [f"{row[size]:,}" for size in SIZES]
            if not row["compared"]:  # a new model has no diff
                sizes[SIZES.index("removed")] = "-"
            cells.append((row["variant"], *sizes, row["status"]))
        last = (f"total of {len(rows)}", *(f"{total[size]:,}" for size in SIZES), "")
        terminal.write(table(("variant", *SIZES, "status"), [*cells, last]))
    terminal.write("".join(f"{problem}\n" for problem in report.problems), err=True)
    return exit_code(report.problems)


def _row(outcome: Outcome, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """One modular file and its outputs; `compared` is false for a new model, which has no diff."""
    outputs = [verdict.output for verdict in verdicts if verdict.output is not None]
    # The first status that is not "ok" stands for the whole variant.
    bad = [verdict.status.value for verdict in verdicts if verdict.status is not Status.OK]
    try:
        declared = code_lines(disk.read_bytes(outcome.modular.path).decode(errors="replace"))
    except (tokenize.TokenError, SyntaxError):
        declared = 0  # the file changed after its outputs were made: its status says that
    classes = chain.from_iterable(output.summary.classes for output in outputs)
    parents = chain.from_iterable(output.summary.parents for output in outputs)
    return {
        "variant": outcome.modular.path.stem.removeprefix("modular_"),
        "modular": outcome.modular.display_path,
        "declared": declared,
        "added": sum(output.added for output in outputs),
        "removed": sum(output.removed for output in outputs),
        "output": sum(output.size for output in outputs),
        "compared": any(output.diff_digest for output in outputs),
        "status": bad[0] if bad else Status.OK.value,
        "outputs": [verdict.display_path for verdict in verdicts],
        "classes": list(classes),
        "parents": list(dict.fromkeys(parents)),
    }
