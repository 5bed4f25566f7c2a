"""x"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from patchgen.verify.cases.case import Case
from patchgen.verify.differences import (
    MARGIN,
    NARROW,
    Bound,
    Difference,
    differences,
    measure_in_noise,
    usual,
)
from patchgen.verify.inputs.arguments import CannotBuild
from patchgen.verify.models.pair import Pair
from patchgen.verify.parts.part_check import Observation, Route, Scenario
from patchgen.verify.report import Status


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


DRAWS = (0, 1, 2)  # seeds of inputs on which the parent's noise is measured, the case's own first
# Two ways to sum are so many times further apart than float32 is from float64: at most 6.4 were
# measured, where T5 computes keys and values by one product.
REORDERING = 16


def is_narrow(dtype: torch.dtype, scenario: Scenario) -> bool:
    """Whether differences are measured in units of the parent's noise."""
    return dtype in NARROW or scenario.autocast


def allowed(bound: Bound, dtype: torch.dtype, scenario: Scenario) -> float:
    """The value of `bound` in `scenario`."""
    return bound.at(dtype, *([torch.bfloat16] if scenario.autocast else []))


def measure_bound(
    bound: Bound, pair: Pair, route: Route, dtype: torch.dtype, scenario: Scenario
) -> float:
    """What `bound` allows, or what the parent's own rounding does if that is more.

    A bound of nothing stays so.
    """
    fixed = allowed(bound, dtype, scenario)
    if not bound.roundings:
        return fixed
    plain = replace(scenario, checkpointing=None)
    try:
        if is_narrow(dtype, scenario):
            return fixed * max(1.0, _spread(pair, route, dtype, plain))
        exact = pair.observe_parent(route, torch.float64, plain)
        rounded = pair.observe_parent(route, torch.float32, plain)
    except CannotBuild:  # XLNet's positions are float32 whatever the model is
        return fixed
    # What is there in one dtype alone, such as the gradient of an expert, is no rounding.
    sizes = (each.largest for each in differences(exact, rounded))
    own = max(filter(math.isfinite, sizes), default=0.0) / torch.finfo(torch.float32).eps
    return max(fixed, replace(bound, roundings=REORDERING * own).at(dtype))


def _spread(pair: Pair, route: Route, dtype: torch.dtype, scenario: Scenario) -> float:
    """How far the parent is from the truth on one of the draws, in units of its noise."""
    draws = [_noise_of(pair, route, dtype, scenario, False, seed) for seed in DRAWS]
    noise = usual(draws[0], *draws[1:])
    found = [measure_in_noise(draw, noise) for draw in draws]
    sizes = (each.largest for draw in found for each in draw)
    return max(filter(math.isfinite, sizes), default=1.0)


def measure_noise(
    pair: Pair,
    route: Route,
    dtype: torch.dtype,
    scenario: Scenario,
    weights: bool,
    draws: tuple[int, ...] = DRAWS,
) -> tuple[Difference, ...]:
    """The rounding noise of the narrow dtype in the parent along `route`."""
    own, *others = (_noise_of(pair, route, dtype, scenario, weights, seed) for seed in draws)
    return usual(own, *others)


def _noise_of(
    pair: Pair,
    route: Route,
    dtype: torch.dtype,
    scenario: Scenario,
    weights: bool,
    seed: int,
) -> tuple[Difference, ...]:
    exact = observe_exactly(pair, route, scenario, weights, seed)
    narrow = pair.observe_parent(route, dtype, scenario, weights=weights, seed=seed)
    return differences(exact, narrow)


def observe_exactly(
    pair: Pair,
    route: Route,
    scenario: Scenario,
    weights: bool,
    seed: int = DRAWS[0],
) -> Observation:
    """The parent in float64, or in float32 where it does not run in that."""
    plain = replace(scenario, autocast=False)
    try:
        return pair.observe_parent(route, torch.float64, plain, weights=weights, seed=seed)
    except CannotBuild:
        return pair.observe_parent(route, torch.float32, plain, weights=weights, seed=seed)
