"""Whether an error that is planted in the variant is seen."""

from __future__ import annotations

import math

import torch

from patchgen.verify.checks.context import Nothing, Trial, Verdict, allowed, is_narrow
from patchgen.verify.checks.numbers import compare, insist_on_scene
from patchgen.verify.compare.tolerance import MARGIN
from patchgen.verify.models.pair import Pair
from patchgen.verify.parts.part_check import Observation, Plant


def planted(pair: Pair, plant: Plant, dtype: torch.dtype) -> float:
    """How far the variant with this error is from the parent; infinite where it does not even run.

    Raises Nothing or CannotBuild where the error does not fit the class, or nothing runs there without it either:
    that would look like an error that is seen.
    """
    if not plant.fits(pair.specimen):
        raise Nothing("this error would change nothing in this class")
    insist_on_scene(pair, plant.scene)
    route = pair.routes[0]
    pair.parent_sees(route, dtype, plant.scene)
    _, variant = pair.models(route, dtype, plant.scene.dropout, fresh=True)
    seen: Observation | None
    with plant.apply(variant):
        try:
            seen = pair.variant_sees(route, dtype, plant.scene, model=variant)
        except (RuntimeError, ValueError):
            seen = None
    if seen is not None:
        return compare(pair, route, dtype, plant.scene, seen)[0].largest
    try:
        pair.variant_sees(route, dtype, plant.scene)
    except (RuntimeError, ValueError) as error:
        raise Nothing(f"the variant does not run so without the error either: {error}") from error
    return math.inf


def sees_plant(trial: Trial) -> Verdict:
    """The error that the case's detail names, as PART:NAME."""
    pair, dtype = trial.pair, trial.dtype
    part, _, name = trial.case.detail.partition(":")
    plant = next(
        p for claim in pair.claims if claim.part == part for p in claim.plants if p.name == name
    )
    apart = planted(pair, plant, dtype)
    bound = max(allowed(route.bound, dtype, plant.scene) for route in pair.routes)
    unit = "noises" if is_narrow(dtype, plant.scene) else "relative"
    if not apart > bound:
        return Verdict("FAIL", f"not seen: {plant.says}", apart, bound, apart, unit)
    if apart < MARGIN * bound:
        note = f"seen, but less than {MARGIN} times the bound: {plant.says}"
        return Verdict("WARN", note, apart, bound, apart, unit)
    return Verdict("PASS", f"seen: {plant.says}", apart, bound, apart, unit)
