"""What the parent's own rounding is, on this machine and in this run.

How far two right computations are apart depends on the model (T5 does not divide its scores, so
random weights spread them widely), on the inputs and on the processor: one without instructions for
bfloat16 rounds elsewhere.  So nothing of it is a constant.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from patchgen.verify.compare.differences import (
    Difference,
    differences,
    measure_in_noise,
    usual,
)
from patchgen.verify.compare.tolerance import NARROW, Bound
from patchgen.verify.inputs.arguments import CannotBuild
from patchgen.verify.models.pair import Pair
from patchgen.verify.parts.part_check import Observation, Route
from patchgen.verify.parts.scenario import Scenario

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
