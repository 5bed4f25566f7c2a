"""The result of one case of `patchgen verify`, which goes through a pipe, a table and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from patchgen.verify.mutation.mutant_result import (
    LinesRun,
    MutantResult,
    counted,
    format_counts,
    lines_from_json,
)
from patchgen.verify.variants import Variant

Status = Literal[
    "PASS", "WARN", "FAIL", "NONE"
]  # NONE: there is nothing to compare, and `note` says why


LINES = "changed lines"
MUTANTS = "mutants"
FILE = "the generated file"
LEFT_OUT = "left out"
DECLARED = "differs on purpose"
NAMED = 6  # of what is missing, in a note


@dataclass(frozen=True, slots=True)
class Result:
    """One case.

    `unit` is "relative" (to a tensor's largest entry) or "noises" (of the parent, in a narrow
    dtype).
    """

    variant: str
    case: str
    status: Status
    difference: float | None = None  # the largest difference
    bound: float | None = None
    seen: float | None = None  # the smallest planted error of this dtype, in the same unit
    unit: str = ""
    note: str = ""
    cause: str = ""  # of a FAIL: all that have one cause say it in the same words
    seconds: float = 0.0
    lines: LinesRun | None = None  # of the case LINES
    fates: tuple[MutantResult, ...] = ()  # of the case MUTANTS

    def as_json(self) -> dict[str, Any]:
        """For JSON, which has no infinity."""
        fields = {
            name: value
            for name, value in asdict(self).items()
            if value or name not in ("lines", "fates", "cause")
        }
        return {
            name: str(value) if value in (float("inf"),) else value
            for name, value in fields.items()
        }

    def __str__(self) -> str:
        numbers = [f"{self.difference:.2e} measured"] if self.difference is not None else []
        numbers += [f"{self.bound:.2e} allowed"] if self.bound is not None else []
        numbers += [f"{self.seen:.2e} the smallest planted error"] if self.seen is not None else []
        measured = f" ({self.unit}: {', '.join(numbers)})" if numbers else ""
        note = f": {self.note}" if self.note else ""
        return f"{self.status} {self.variant} {self.case}{measured}{note}"


def make_lines_result(variant: str, lines: LinesRun) -> Result:
    """PASS where every line ran but those that only refuse."""
    note = f"{lines.ran} of {lines.changed} changed lines ran"
    note += f", {len(lines.refusals)} more only refuse" if lines.refusals else ""
    if lines.not_run:
        note += f"; not run: {lines.file}:{_listed([str(number) for number, _ in lines.not_run])}"
    return Result(variant, LINES, "WARN" if lines.not_run else "PASS", note=note, lines=lines)


def make_mutants_result(
    variant: str, fates: tuple[MutantResult, ...], lines: LinesRun | None = None
) -> Result:
    """PASS where each that runs was seen, or computes the same."""
    found = counted(fates)
    note = format_counts(fates, lines)
    if unseen := [f"{fate.place} {fate.says}" for fate in fates if fate.outcome == "unseen"]:
        note += f"; unseen: {_listed(unseen)}"
    status: Status = "WARN" if unseen else "PASS" if found["seen"] else "NONE"
    return Result(variant, MUTANTS, status, note=note, fates=fates)


def make_left_out_result(variant: str, cases: int, mutants: int) -> Result:
    """What did not fit into the time of a run."""
    what = [f"{cases} cases"] if cases else []
    what += [f"{mutants} planted errors"] if mutants else []
    note = f"{' and '.join(what)} did not fit into the time of this run: --full runs all"
    return Result(variant, LEFT_OUT, "NONE", note=note)


def describe(variant: Variant) -> Iterator[Result]:
    """What is to be known of a variant before it is run."""
    if variant.edited:
        path = f"{variant.module.replace('.', '/')}.py"
        note = f"{path} is not what patchgen.lock records; patchgen check says what differs"
        yield Result(variant.name, FILE, "WARN", note=note)
    if variant.differs:
        what = "; ".join(f"{name} ({why})" for name, why in variant.differs)
        yield Result(variant.name, DECLARED, "NONE", note=what)


def causes(results: Iterable[Result]) -> Iterator[tuple[str, list[Result]]]:
    """Each cause of FAILs with its results, the most first."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result.status == "FAIL":
            found.setdefault(f"{result.variant}: {result.cause or result.note}", []).append(result)
    yield from sorted(found.items(), key=lambda item: -len(item[1]))


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def counts(results: Iterable[Result]) -> dict[str, int]:
    """How many of each status, in this order."""
    found = Counter(result.status for result in results)
    return {status: found[status] for status in ("PASS", "WARN", "FAIL", "NONE")}


def find_unproven(variants: Iterable[str], results: Iterable[Result]) -> tuple[str, ...]:
    """Those of `variants` for which no numbers were compared with the parent's."""
    proven = {
        each.variant
        for each in results
        if each.difference is not None
        and " planted: " not in each.case
        and " itself: " not in each.case
    }
    return tuple(name for name in variants if name not in proven)


def from_json(fields: dict[str, Any]) -> Result:
    """The inverse of `as_json`."""
    for name in ("difference", "bound", "seen"):
        fields[name] = None if fields[name] is None else float(fields[name])
    lines = lines_from_json(fields["lines"]) if fields.get("lines") else None
    fates = tuple(MutantResult(**fate) for fate in fields.get("fates", ()))
    return Result(**{**fields, "lines": lines, "fates": fates})
