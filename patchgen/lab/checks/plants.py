"""Whether an error that is planted in the variant is seen."""

from __future__ import annotations

import math

import torch

from patchgen.lab.checks.numbers import compare, insist_on_scene
from patchgen.lab.checks.trial import Nothing, Trial, Verdict, allowed, is_narrow
from patchgen.lab.claim import Plant
from patchgen.lab.inputs import CannotBuild
from patchgen.lab.pair import Pair
from patchgen.lab.tolerance import MARGIN


def planted(pair: Pair, plant: Plant, dtype: torch.dtype) -> float | None:
    """How far the variant with this error is from the parent; None where the error does not fit the class."""
    if not plant.fits(pair.specimen):
        return None
    try:
        insist_on_scene(pair, plant.scene)
        pair.inputs(plant.scene, dtype)
    except (Nothing, CannotBuild):
        return None
    route = pair.routes[0]
    _, variant = pair.models(route, dtype, plant.scene.dropout, fresh=True)
    with plant.apply(variant):
        try:
            seen = pair.variant_sees(route, dtype, plant.scene, model=variant)
        except (RuntimeError, ValueError):
            return math.inf  # it does not even run
    return compare(pair, route, dtype, plant.scene, seen)[0].largest


def sees_plant(trial: Trial) -> Verdict:
    """The error that the case's detail names, as PART:NAME."""
    pair, dtype = trial.pair, trial.dtype
    part, _, name = trial.case.detail.partition(":")
    plant = next(p for claim in pair.claims if claim.part == part for p in claim.plants if p.name == name)
    apart = planted(pair, plant, dtype)
    if apart is None:
        raise Nothing("this error would change nothing in this class")
    bound = max(allowed(route.bound, dtype, plant.scene) for route in pair.routes)
    unit = "noises" if is_narrow(dtype, plant.scene) else "relative"
    if not apart > bound:
        return Verdict("FAIL", f"not seen: {plant.says}", apart, bound, apart, unit)
    if apart < MARGIN * bound:
        note = f"seen, but less than {MARGIN} times the bound: {plant.says}"
        return Verdict("WARN", note, apart, bound, apart, unit)
    return Verdict("PASS", f"seen: {plant.says}", apart, bound, apart, unit)
