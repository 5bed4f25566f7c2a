"""Check that one training step of the variant gives the same numbers as the parent's."""

from __future__ import annotations

import inspect
from dataclasses import replace

import torch

from patchgen.runtime.checkpointing import ChangedInPlace
from patchgen.verify.checks.context import (
    CheckContext,
    NothingToCompare,
    Verdict,
    decide,
)
from patchgen.verify.checks.noise import allowed, is_narrow, measure_noise, observe_exactly
from patchgen.verify.compare.differences import (
    Difference,
    differences,
    find_other_dtypes,
    measure_in_noise,
    nearer,
)
from patchgen.verify.compare.tolerance import REORDERED, loosest
from patchgen.verify.inputs.calls import AS_TUPLE
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.step import observe_step
from patchgen.verify.parts.part_check import Observation, Route
from patchgen.verify.parts.scenario import Scenario


def check_numbers(context: CheckContext) -> Verdict:
    """Compare along the case's route, in its scenario."""
    pair, case, dtype = context.pair, context.case, context.dtype
    route, scenario = pair.route(case.route), case.scenario
    if case.route == 1 and pair.routes[0].name == pair.routes[1].name:
        raise NothingToCompare(
            f"the parent has one computation, {route.name}, and it is compared as the closest"
        )
    require_scenario(pair, scenario)
    pair.observe_parent(
        route, dtype, scenario
    )  # first: the variant need not do what the parent cannot
    found = compare(pair, route, dtype, scenario, _of_variant(context, route))
    if found[0].largest > allowed(route.bound, dtype, scenario) and _sums_anew(
        pair, route, dtype, scenario
    ):
        route = replace(route, bound=loosest([route.bound, REORDERED]))
    return decide(context, found, route)


def _of_variant(context: CheckContext, route: Route) -> Observation:
    """The variant's observation.

    Raises NothingToCompare if it refuses a guessed setting, or what a part says that it refuses.
    """
    try:
        return context.pair.observe_variant(route, context.dtype, context.case.scenario)
    except ChangedInPlace as error:
        raise NothingToCompare(str(error)) from error
    except (ValueError, NotImplementedError) as error:
        if not (context.case.drawn or _is_announced(context, error)):
            raise
        raise NothingToCompare(f"refused: {error}") from error


def _is_announced(context: CheckContext, error: Exception) -> bool:
    """Whether a part of the variant says that it raises this error."""
    ways, words = context.case.scenario.ways, str(error)
    refusals = [each for part_check in context.pair.part_checks for each in part_check.refuses]
    return isinstance(error, ValueError) and any(
        refusal.way in ways and refusal.words in words for refusal in refusals
    )


def _sums_anew(pair: Pair, route: Route, dtype: torch.dtype, scenario: Scenario) -> bool:
    """Whether checkpointing moves the parent's own gradients.

    Gradients of what layers share, such as T5's position bias, are then summed in another order.
    """
    if scenario.checkpointing is None or not pair.parent_class.supports_gradient_checkpointing:
        return False
    parent, _ = pair.models(route, dtype, scenario.dropout)
    observed = observe_step(
        parent, pair.inputs(scenario, dtype), replace(scenario, checkpointing={})
    )
    return differences(pair.observe_parent(route, dtype, scenario), observed)[0].largest > 0


def compare(
    pair: Pair,
    route: Route,
    dtype: torch.dtype,
    scenario: Scenario,
    observed: Observation,
    *,
    weights: bool = False,
) -> tuple[Difference, ...]:
    """The differences between the parent's observation and `observed`, the largest first.

    In a narrow dtype they are in units of noise, and each tensor is compared with the nearer of
    two: the parent's own, and the parent's in float64, which that rounds.  A variant as near to the
    truth as its parent, but on the other side, is not wrong, though it is two roundings from the
    parent.  A tensor of another dtype is infinitely far, unless a part declares it.
    """
    parent = pair.observe_parent(route, dtype, scenario, weights=weights)
    reference, ours = pair.without_hidden(parent, scenario, observed), dict(observed)
    found = differences(reference, ours)
    if not is_narrow(dtype, scenario):
        return found
    own_dtypes = any(part_check.own_dtypes(scenario) for part_check in pair.part_checks)
    others = () if own_dtypes else find_other_dtypes(reference, ours)
    noises = [measure_noise(pair, each, dtype, scenario, weights) for each in pair.routes]
    if own_dtypes and scenario.autocast:
        # What autocast leaves in float32, such a part keeps in the narrow dtype, as the parent does
        # whose weights are in that dtype.
        plain = replace(scenario, autocast=False)
        noises.append(measure_noise(pair, route, torch.bfloat16, plain, weights))
    wide = observe_exactly(pair, route, scenario, weights)
    of_truth = differences(pair.without_hidden(wide, scenario, observed), ours)
    return (*others, *nearer(measure_in_noise(found, *noises), measure_in_noise(of_truth, *noises)))


def require_scenario(pair: Pair, scenario: Scenario) -> None:
    """Raises NothingToCompare if the parent does not have what the scenario asks for."""
    if scenario.rows in ("packed", "several") and not pair.isolates_packed_texts:
        pair.inputs(scenario, torch.float32)
        raise NothingToCompare("the parent does not keep packed rows apart")
    if (
        scenario.train
        and scenario.dropout
        and not all(part_check.same_rng_order for part_check in pair.part_checks)
    ):
        raise NothingToCompare("random numbers are drawn in another order")
    if AS_TUPLE in scenario.ways and any(
        hidden.when(scenario, pair.changes)
        for part_check in pair.part_checks
        for hidden in part_check.hides
    ):
        raise NothingToCompare("what it hides moves the others in a tuple")
    if scenario.accumulate > 1 and (
        "labels" not in pair.inputs(scenario, torch.float32).given or not _scales(pair)
    ):
        raise NothingToCompare("its loss takes no num_items_in_batch")
    if (
        scenario.checkpointing is not None
        and not pair.variant_class.supports_gradient_checkpointing
    ):
        raise NothingToCompare("it has no gradient checkpointing")


def _scales(pair: Pair) -> bool:
    # `Trainer` finds it out in the same way.
    kinds = {p.kind for p in inspect.signature(pair.parent_class.forward).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds
