"""The argument of a check, `CheckContext`, and its result, `Verdict`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from patchgen.verify.cases.case import Case
from patchgen.verify.checks.noise import allowed, is_narrow, measure_bound
from patchgen.verify.compare.differences import Difference
from patchgen.verify.compare.tolerance import MARGIN
from patchgen.verify.models.pair import Pair
from patchgen.verify.parts.part_check import Route
from patchgen.verify.report.result import Status


class NothingToCompare(Exception):
    """There is nothing to compare; the message says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fields of a `Result` that a check decides."""

    status: Status
    note: str = ""
    difference: float | None = None
    bound: float | None = None
    seen: float | None = None
    unit: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """One case, its two models, and the smallest planted error to compare its bound with."""

    pair: Pair
    case: Case
    find_smallest_planted: Callable[
        [Case], float | None
    ]  # of that case's dtype; None where no planted error fits

    @property
    def dtype(self) -> torch.dtype:
        return getattr(torch, self.case.dtype)


def decide(
    context: CheckContext, found: tuple[Difference, ...], route: Route, against: str = ""
) -> Verdict:
    """PASS if the largest difference is within the route's bound and well below any planted error.

    `found` has the largest difference first.  `against` names what was compared with, if that is
    not the parent under the route.
    """
    case, worst = context.case, found[0]
    narrow = is_narrow(context.dtype, case.scenario)
    bound = allowed(route.bound, context.dtype, case.scenario)
    if worst.largest > bound:
        bound = measure_bound(route.bound, context.pair, route, context.dtype, case.scenario)
    seen = context.find_smallest_planted(replace(case, dtype="bfloat16") if narrow else case)
    note = f"{route.bound.name} to {against or f'the parent under {route.name}'}"
    status: Status = "PASS"
    if not worst.largest <= bound:
        status, note = "FAIL", f"{note}; {'; '.join(map(str, found[:3]))}"
    elif seen is not None and (seen < MARGIN * bound or not seen):
        status, note = "WARN", f"{note}; the smallest planted error is not {MARGIN} times the bound"
    elif worst.largest:
        note = f"{note}; most in {worst.name}"
    return Verdict(status, note, worst.largest, bound, seen, "noises" if narrow else "relative")
