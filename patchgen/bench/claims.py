"""What contestants claim of themselves, beside speed, and whether it is so."""

from __future__ import annotations

from collections.abc import Mapping

from patchgen.bench.case import Case
from patchgen.bench.contestant import Contestant
from patchgen.bench.result import Result

NO_MASK = {"none", "causal"}


def broken_claims(case: Case, results: Mapping[str, Result]) -> dict[str, str]:
    """What is not as it was claimed, by the contestants' names."""
    anchor = results.get(case.anchor)
    told = {one.name: _broken(one, results[one.name], anchor) for one in case.contestants if one.name in results}
    return {name: reason for name, reason in told.items() if reason}


def _broken(contestant: Contestant, result: Result, anchor: Result | None) -> str:
    if result.status not in ("ok", "partial"):
        return ""
    asked_rows = result.rows is not None
    if contestant.no_mask and not asked_rows and not (result.masks and set(result.masks) <= NO_MASK):
        return f"SDPA got {', '.join(result.masks) or 'no call'}, and was to get no mask"
    if contestant.compiled and contestant.attention != "eager" and not asked_rows and not result.masks:
        return "no call of SDPA was seen in its graphs: it was not compiled"
    if contestant.saves is not None and result.saved is not None and anchor is not None and anchor.saved:
        part = result.saved / anchor.saved
        if part > contestant.saves:
            return f"keeps {part:.2f} of what the anchor keeps for backward, and was to keep {contestant.saves:g}"
    return ""
