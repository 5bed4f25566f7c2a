"""Whether everything that the variant gives in one step of training is what the parent gives."""

from __future__ import annotations

import inspect
from dataclasses import replace

import torch

from patchgen.runtime.checkpointing import ChangedInPlace
from patchgen.verify.checks.context import Nothing, Trial, Verdict, allowed, decided, is_narrow
from patchgen.verify.compare.differences import (
    Difference,
    differences,
    in_noises,
    nearer,
    of_other_dtypes,
    usual,
)
from patchgen.verify.compare.tolerance import REORDERED, loosest
from patchgen.verify.inputs.calls import AS_TUPLE
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.step import observe_step
from patchgen.verify.parts.part_check import Observation, Route, Scene

DRAWS = (0, 1, 2)  # seeds of inputs on which the parent's noise is measured, the case's own first


def equals_parent(trial: Trial) -> Verdict:
    """Along the case's route, in its scene."""
    pair, case, dtype = trial.pair, trial.case, trial.dtype
    route, scene = pair.route(case.route), case.scene
    if case.route == 1 and pair.routes[0].name == pair.routes[1].name:
        raise Nothing(
            f"the parent has one computation, {route.name}, and it is compared as the closest"
        )
    insist_on_scene(pair, scene)
    pair.parent_sees(route, dtype, scene)  # first: what it cannot do, nobody asks of the variant
    found = compare(pair, route, dtype, scene, _of_variant(trial, route))
    if found[0].largest > allowed(route.bound, dtype, scene) and _sums_anew(
        pair, route, dtype, scene
    ):
        route = replace(route, bound=loosest([route.bound, REORDERED]))
    return decided(trial, found, route)


def _of_variant(trial: Trial, route: Route) -> Observation:
    """What the variant gives; Nothing where it refuses values that were drawn, and that nobody said it takes."""
    try:
        return trial.pair.variant_sees(route, trial.dtype, trial.case.scene)
    except ChangedInPlace as error:
        raise Nothing(str(error)) from error
    except (ValueError, NotImplementedError) as error:
        if not trial.case.drawn:
            raise
        raise Nothing(f"refused: {error}") from error


def _sums_anew(pair: Pair, route: Route, dtype: torch.dtype, scene: Scene) -> bool:
    """Whether checkpointing moves the parent's own gradients: those of what its layers share, as T5's position bias,
    are summed in another order.
    """
    if scene.checkpointing is None or not pair.parent_class.supports_gradient_checkpointing:
        return False
    parent, _ = pair.models(route, dtype, scene.dropout)
    seen = observe_step(parent, pair.inputs(scene, dtype), replace(scene, checkpointing={}))
    return differences(pair.parent_sees(route, dtype, scene), seen)[0].largest > 0


def compare(
    pair: Pair,
    route: Route,
    dtype: torch.dtype,
    scene: Scene,
    seen: Observation,
    *,
    weights: bool = False,
) -> tuple[Difference, ...]:
    """The parent's observation against `seen`, in noises where the dtype is narrow, the largest first.

    There each tensor is held against the nearer of two: the parent's own, and what that rounds, the parent's in
    float32.  A variant that is as near to the truth as its parent is, on the other side of it, is not wrong, and yet
    two roundings from its parent.  What comes in another dtype is infinitely far, unless a part says that it is to.
    """
    reference, ours = (
        pair.shown(pair.parent_sees(route, dtype, scene, weights=weights), scene),
        pair.shown(seen, scene),
    )
    found = differences(reference, ours)
    if not is_narrow(dtype, scene):
        return found
    own_dtypes = any(claim.own_dtypes(scene) for claim in pair.claims)
    others = () if own_dtypes else of_other_dtypes(reference, ours)
    noises = [_noise(pair, each, dtype, scene, weights) for each in pair.routes]
    of_truth = differences(pair.shown(_wide(pair, route, scene, weights), scene), ours)
    return (*others, *nearer(in_noises(found, *noises), in_noises(of_truth, *noises)))


def _noise(
    pair: Pair, route: Route, dtype: torch.dtype, scene: Scene, weights: bool
) -> tuple[Difference, ...]:
    """What the narrow dtype does to the parent along `route`: here, or to its usual input where that is more."""
    own, *others = (_noise_of(pair, route, dtype, scene, weights, seed) for seed in DRAWS)
    return usual(own, *others)


def _noise_of(
    pair: Pair, route: Route, dtype: torch.dtype, scene: Scene, weights: bool, seed: int
) -> tuple[Difference, ...]:
    wide = _wide(pair, route, scene, weights, seed)
    narrow = pair.parent_sees(route, dtype, scene, weights=weights, seed=seed)
    return differences(pair.shown(wide, scene), pair.shown(narrow, scene))


def _wide(
    pair: Pair, route: Route, scene: Scene, weights: bool, seed: int = DRAWS[0]
) -> Observation:
    return pair.parent_sees(
        route, torch.float32, replace(scene, autocast=False), weights=weights, seed=seed
    )


def insist_on_scene(pair: Pair, scene: Scene) -> None:
    """Raises Nothing where the parent has nothing that the scene asks for."""
    if scene.rows == "packed" and not pair.keeps_packed_apart:
        pair.inputs(scene, torch.float32)
        raise Nothing("the parent does not keep packed rows apart")
    if scene.train and scene.dropout and not all(claim.same_draws for claim in pair.claims):
        raise Nothing("random numbers are drawn in another order")
    if AS_TUPLE in scene.ways and any(
        hidden.when(scene) for claim in pair.claims for hidden in claim.hides
    ):
        raise Nothing("what it hides moves the others in a tuple")
    if scene.accumulate > 1 and (
        "labels" not in pair.inputs(scene, torch.float32).given or not _scales(pair)
    ):
        raise Nothing("its loss takes no num_items_in_batch")
    if scene.checkpointing is not None and not pair.variant_class.supports_gradient_checkpointing:
        raise Nothing("it has no gradient checkpointing")


def _scales(pair: Pair) -> bool:
    # As `Trainer` finds out.
    kinds = {p.kind for p in inspect.signature(pair.parent_class.forward).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds
