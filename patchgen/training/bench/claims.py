"""What contestants claim of themselves, beside speed, and whether it is so."""

from __future__ import annotations

from collections.abc import Mapping

from patchgen.training.bench.case import Case
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.result import Result

NO_MASK = {"none", "causal"}
LATER = 0.03  # between losses after some steps: roundings have been learned from by then, an error more so


def broken_claims(case: Case, results: Mapping[str, Result]) -> dict[str, str]:
    """What is not as it was claimed, by the contestants' names."""
    known = [one for one in case.entries if one.name in results]
    told = {
        one.name: _broken(case, one, results[one.name], results.get(case.baseline)) for one in known
    }
    return {name: reason for name, reason in told.items() if reason}


def _broken(case: Case, entry: Entry, result: Result, baseline: Result | None) -> str:
    if result.status not in ("ok", "partial"):
        return ""
    beside = _beside(entry, case, result, baseline) if baseline is not None else ""
    return ("" if result.rows is not None else _masked(entry, result)) or beside


def _masked(entry: Entry, result: Result) -> str:
    if entry.no_mask and not (result.masks and set(result.masks) <= NO_MASK):
        return f"SDPA got {', '.join(result.masks) or 'no call'}, and was to get no mask"
    if entry.compiled and entry.attention != "eager" and not result.masks:
        return "no call of SDPA was seen in its graphs: it was not compiled"
    return ""


def _beside(entry: Entry, case: Case, result: Result, baseline: Result) -> str:
    """What it keeps, and what it has learned from the same texts by the same optimizer."""
    if entry.saves is not None and result.saved is not None and baseline.saved:
        part = result.saved / baseline.saved
        if part > entry.saves:
            return f"keeps {part:.2f} of what the anchor keeps for backward, and was to keep {entry.saves:g}"
    if result.losses is None or baseline.losses is None:
        return ""
    first = case.entry(case.baseline)
    # Dropout draws otherwise in each implementation.
    alike = (entry.rows, entry.optimizer) == (
        first.rows,
        first.optimizer,
    ) and not case.dropout
    ours, theirs = result.losses[1], baseline.losses[1]
    if alike and not abs(ours - theirs) <= LATER * abs(theirs):  # nor where it is no number
        return f"its loss after the first turn is {ours:.4g}, and the anchor's {theirs:.4g}"
    return ""
