"""Check what entries promise beside speed: no masks, fewer saved activations, equal losses."""

from __future__ import annotations

from collections.abc import Mapping

from patchgen.training.bench.case import Case
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.result import Result

NO_MASK = {"none", "causal"}
LATER = 0.03  # relative difference of losses after some steps, to which rounding errors add up


def failed_checks(case: Case, results: Mapping[str, Result]) -> dict[str, str]:
    """Return why checks failed, by the names of the entries."""
    known = [one for one in case.entries if one.name in results]
    reasons = {
        one.name: _failed(case, one, results[one.name], results.get(case.baseline)) for one in known
    }
    return {name: reason for name, reason in reasons.items() if reason}


def _failed(case: Case, entry: Entry, result: Result, baseline: Result | None) -> str:
    if result.status not in ("ok", "partial"):
        return ""
    beside = _beside(entry, case, result, baseline) if baseline is not None else ""
    return ("" if result.rows is not None else _masked(entry, result)) or beside


def _masked(entry: Entry, result: Result) -> str:
    if entry.no_mask and not (result.masks and set(result.masks) <= NO_MASK):
        return f"SDPA got {', '.join(result.masks) or 'no call'}, and should get no mask"
    if entry.compiled and entry.attention != "eager" and not result.masks:
        return "its graphs have no call of SDPA: it was not compiled"
    return ""


def _beside(entry: Entry, case: Case, result: Result, baseline: Result) -> str:
    """Compare what the entry saves and has learned with the case's baseline."""
    if entry.saves is not None and result.saved is not None and baseline.saved:
        part = result.saved / baseline.saved
        if part > entry.saves:
            limit = f"more than its limit of {entry.saves:g}"
            return f"saves {part:.2f} of what the baseline saves for backward, {limit}"
    if result.losses is None or baseline.losses is None:
        return ""
    first = case.entry(case.baseline)
    # Each implementation draws dropout differently.
    alike = (entry.rows, entry.optimizer) == (
        first.rows,
        first.optimizer,
    ) and not case.dropout
    ours, theirs = result.losses[1], baseline.losses[1]
    if alike and not abs(ours - theirs) <= LATER * abs(theirs):  # also false for NaN
        return f"its loss after the first round is {ours:.4g}, and the baseline's {theirs:.4g}"
    return ""
