"""Check that the comparison notices an error that is planted in the variant."""

from __future__ import annotations

import math

import torch

from patchgen.verify.checks.context import (
    CheckContext,
    NothingToCompare,
    Verdict,
)
from patchgen.verify.checks.noise import allowed, is_narrow
from patchgen.verify.checks.numbers import compare, require_scenario
from patchgen.verify.compare.tolerance import MARGIN
from patchgen.verify.models.pair import Pair
from patchgen.verify.parts.part_check import Observation, PlantedError


def measure_planted_error(pair: Pair, planted_error: PlantedError, dtype: torch.dtype) -> float:
    """How far the variant with this error is from the parent; infinite if it does not even run.

    Raises NothingToCompare or CannotBuild if the error does not fit the class, or if the variant
    does not run without it either: that would look like an error that was noticed.
    """
    if not planted_error.fits(pair.facts):
        raise NothingToCompare("this error would change nothing in this class")
    require_scenario(pair, planted_error.scenario)
    route = pair.routes[0]
    pair.observe_parent(route, dtype, planted_error.scenario)
    _, variant = pair.models(route, dtype, planted_error.scenario.dropout, fresh=True)
    observed: Observation | None
    with planted_error.apply(variant):
        try:
            observed = pair.observe_variant(route, dtype, planted_error.scenario, model=variant)
        except (RuntimeError, ValueError):
            observed = None
    if observed is not None:
        return compare(pair, route, dtype, planted_error.scenario, observed)[0].largest
    try:
        pair.observe_variant(route, dtype, planted_error.scenario)
    except (RuntimeError, ValueError) as error:
        raise NothingToCompare(
            f"the variant does not run so without the error either: {error}"
        ) from error
    return math.inf


def check_planted_error(context: CheckContext) -> Verdict:
    """Plant the error that the case's detail names, as PART:NAME."""
    pair, dtype = context.pair, context.dtype
    part, _, name = context.case.detail.partition(":")
    planted_error = next(
        p
        for part_check in pair.part_checks
        if part_check.part == part
        for p in part_check.planted_errors
        if p.name == name
    )
    difference = measure_planted_error(pair, planted_error, dtype)
    bound = max(allowed(route.bound, dtype, planted_error.scenario) for route in pair.routes)
    unit = "noises" if is_narrow(dtype, planted_error.scenario) else "relative"
    if not difference > bound:
        return Verdict(
            "FAIL", f"not seen: {planted_error.says}", difference, bound, difference, unit
        )
    if difference < MARGIN * bound:
        note = f"seen, but less than {MARGIN} times the bound: {planted_error.says}"
        return Verdict("WARN", note, difference, bound, difference, unit)
    return Verdict("PASS", f"seen: {planted_error.says}", difference, bound, difference, unit)
