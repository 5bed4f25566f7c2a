"""Check the numbers of a variant beside the parent, with planted errors, and of its parts."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from patchgen.runtime.checkpointing import ChangedInPlace
from patchgen.verify.checks.context import (
    DRAWS,
    CheckContext,
    NothingToCompare,
    Verdict,
    allowed,
    decide,
    is_narrow,
    measure_bound,
    measure_noise,
    observe_exactly,
)
from patchgen.verify.differences import (
    MARGIN,
    REORDERED,
    Difference,
    differences,
    find_other_dtypes,
    loosest,
    measure_in_noise,
    nearer,
    worst,
)
from patchgen.verify.inputs.arguments import BOUNDARY, CannotBuild, takes
from patchgen.verify.inputs.calls import AS_TUPLE
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.recorder import compute_in_float64
from patchgen.verify.observe.step import observe_step, outputs, takes_cache
from patchgen.verify.parts.part_check import Observation, PlantedError, Route, Scenario
from patchgen.verify.report import Status

# --- Check that one training step of the variant gives the same numbers as the parent's


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
    enough = allowed(route.bound, dtype, scenario)
    found = compare(pair, route, dtype, scenario, _of_variant(context, route), enough=enough)
    if found[0].largest > allowed(route.bound, dtype, scenario) and _sums_anew(
        pair, route, dtype, scenario
    ):
        route = replace(route, bound=loosest([route.bound, REORDERED]))
    if found[0].largest > allowed(route.bound, dtype, scenario):
        found, route = _beside_eager(context, found, route)
    if is_narrow(dtype, scenario):
        found = _of_other_draws(context, found, route)
    return decide(context, found, route)


def _of_other_draws(
    context: CheckContext, found: tuple[Difference, ...], route: Route
) -> tuple[Difference, ...]:
    """The smallest of differences on several inputs, where those on the first are too large.

    What rounding makes is of one draw, and what an error makes is of all.
    """
    pair, scenario, dtype = context.pair, context.case.scenario, context.dtype
    for seed in DRAWS[1:]:
        bound = allowed(route.bound, dtype, scenario)
        if found[0].largest > bound:
            bound = measure_bound(route.bound, pair, route, dtype, scenario)
        if found[0].largest <= bound or math.isinf(found[0].largest):
            break
        observed = _of_variant(context, route, seed)
        again = compare(pair, route, dtype, scenario, observed, seed=seed)
        found = min(found, again, key=lambda each: each[0].largest)
    return found


def _beside_eager(
    context: CheckContext, found: tuple[Difference, ...], route: Route
) -> tuple[tuple[Difference, ...], Route]:
    """Beside the parent's eager attention, where that is as far from the parent as the variant is.

    At a query that sees nothing, which padding at the left makes, SDPA gives zeros and eager
    attention a mean.  Both are the parent, and a head may read them.
    """
    pair, scenario, dtype = context.pair, context.case.scenario, context.dtype
    if is_narrow(dtype, scenario) or context.case.route or pair.is_neutral:
        return found, route
    eager, bound = pair.eager_route, allowed(route.bound, dtype, scenario)
    try:
        other = pair.observe_parent(eager, dtype, scenario)
    except (CannotBuild, ValueError):  # it has no other
        return found, route
    if differences(pair.observe_parent(route, dtype, scenario), other)[0].largest <= bound:
        return found, route
    for ours in (route, eager) if scenario.rows == "left" else (route,):
        beside = compare(pair, eager, dtype, scenario, _of_variant(context, ours))
        if beside[0].largest <= allowed(eager.bound, dtype, scenario):
            return beside, eager
    return found, route


def _of_variant(context: CheckContext, route: Route, seed: int = 0) -> Observation:
    """The variant's observation.

    Raises NothingToCompare if it refuses a guessed setting, or what a part says that it refuses.
    """
    try:
        scenario = context.case.scenario
        return context.pair.observe_variant(route, context.dtype, scenario, seed=seed)
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
    enough: float = 0.0,
    seed: int = 0,
) -> tuple[Difference, ...]:
    """The differences between the parent's observation and `observed`, the largest first.

    In a narrow dtype they are in units of noise, and each tensor is compared with the nearer of
    two: the parent's own, and the parent's in float64, which that rounds.  A variant as near to the
    truth as its parent, but on the other side, is not wrong, though it is two roundings from the
    parent.  A tensor of another dtype is infinitely far, unless a part declares it.

    Each draw of inputs and each route on which noise is measured may add to it, and takes time:
    where the first alone shows differences of at most `enough`, that is the answer.
    """
    parent = pair.observe_parent(route, dtype, scenario, weights=weights, seed=seed)
    reference, ours = pair.without_hidden(parent, scenario, observed), dict(observed)
    found = differences(reference, ours)
    if not is_narrow(dtype, scenario):
        return found
    own_dtypes = any(part_check.own_dtypes(scenario) for part_check in pair.part_checks)
    others = () if own_dtypes else find_other_dtypes(reference, ours)
    wide = observe_exactly(pair, route, scenario, weights, seed)
    of_truth = differences(pair.without_hidden(wide, scenario, observed), ours)
    draws = (seed, *(each for each in DRAWS if each != seed))
    if enough:
        first = measure_noise(pair, route, dtype, scenario, weights, draws[:1])
        in_noises = nearer(measure_in_noise(found, first), measure_in_noise(of_truth, first))
        if worst((*others, *in_noises)) <= enough:
            return (*others, *in_noises)
    noises = [measure_noise(pair, each, dtype, scenario, weights, draws) for each in pair.routes]
    if own_dtypes and scenario.autocast:
        # What autocast leaves in float32, such a part keeps in the narrow dtype, as the parent does
        # whose weights are in that dtype.
        plain = replace(scenario, autocast=False)
        noises.append(measure_noise(pair, route, torch.bfloat16, plain, weights, draws))
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


# --- Check that the comparison notices an error that is planted in the variant


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
        # Rounding may hide it, on some inputs; a wide dtype hides nothing.
        status: Status = "WARN" if is_narrow(dtype, planted_error.scenario) else "FAIL"
        note = f"not seen: {planted_error.says}"
        return Verdict(status, note, difference, bound, difference, unit)
    if difference < MARGIN * bound:
        note = f"seen, but less than {MARGIN} times the bound: {planted_error.says}"
        return Verdict("WARN", note, difference, bound, difference, unit)
    return Verdict("PASS", f"seen: {planted_error.says}", difference, bound, difference, unit)


# --- Check that a loss without logits is as exact as the loss of the logits

# Both sum the same products in float32, and round a logit to the other side here and there: 5e-5
# was measured of Gemma 2.  A loss that is summed in bfloat16 is at least 2e-3 away.
CLOSE = 2e-4


def check_loss_beside_logits(context: CheckContext) -> Verdict:
    """Compare the variant's loss with its loss from logits, which `loss_chunk_size = 0` gives.

    The states of both are equal bit for bit, whatever the dtype.  Beside the parent's loss, the
    noise of a narrow dtype would hide a loss that is summed in it.
    """
    pair, scenario = context.pair, context.case.scenario
    require_scenario(pair, scenario)
    if not hasattr(pair.facts.module, "causal_loss"):
        raise NothingToCompare("it computes logits, of the labelled tokens alone")
    _, variant = pair.models(pair.routes[0], context.dtype, fresh=True)
    inputs = pair.inputs(scenario, context.dtype)
    short = observe_step(variant, inputs, scenario).get("loss")
    variant.config.loss_chunk_size = 0
    whole = observe_step(variant, inputs, scenario).get("loss")
    if short is None or whole is None:
        raise NothingToCompare("it has no loss here")
    difference = float((short.double() - whole.double()).abs() / whole.double().abs())
    note = "the loss of logits that are all there"
    return Verdict(
        "PASS" if difference <= CLOSE else "FAIL", note, difference, CLOSE, unit="relative"
    )


# --- Whether each norm alone rounds as the parent's does in a narrow dtype

# Of the values of a norm, those that may be one rounding apart: both compute in float32, and sum in
# another order.  A weight that is rounded first changes half of them.
MAY_DIFFER = 0.05
ROWS = 64


def check_norms(context: CheckContext) -> Verdict:
    """The norms of the variant and of the parent, on the same rows.

    In a whole model the noise of the narrow dtype hides one rounding too many.
    """
    pair = context.pair
    parent, variant = pair.models(pair.routes[0], context.dtype)
    theirs = dict(_find_norms(parent))
    shares = {
        name: _share_that_differs(norm, theirs[name])
        for name, norm in _find_norms(variant)
        if name in theirs
    }
    if not shares:
        raise NothingToCompare("it has no norm of its own")
    name, worst = max(shares.items(), key=lambda item: item[1])
    note = f"of {len(shares)} norms, values of {name} that are not the parent's"
    is_equal = worst <= MAY_DIFFER
    return Verdict("PASS" if is_equal else "FAIL", note, worst, MAY_DIFFER, unit="share")


def _find_norms(model: PreTrainedModel) -> Iterator[tuple[str, nn.Module]]:
    """The norms of the model's own file, with one weight for each place of a row."""
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        is_own = type(module).__module__ == type(model).__module__
        if is_own and type(module).__name__.endswith("Norm") and isinstance(weight, Tensor):
            yield name, module


def _share_that_differs(ours: nn.Module, theirs: nn.Module) -> float:
    weight = ours.get_parameter("weight")
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(ROWS, weight.shape[0], generator=draw).to(weight)
    with torch.no_grad():
        return float((ours(rows) != theirs(rows)).float().mean())


# --- Check that texts packed into one row, as `position_ids` show, do not see each other


def check_isolation(context: CheckContext) -> Verdict:
    """Compare the variant on three texts in one row with itself on each text alone.

    What it gives for each token is compared at that token, and what it gives for each text, as a
    pooler does, at that text.
    """
    pair = context.pair
    if "position_ids" not in takes(pair.variant_class):
        raise NothingToCompare("its forward takes no position_ids")
    _, variant = pair.models(pair.routes[0], context.dtype)
    given = pair.inputs(context.case.scenario, context.dtype).given
    ids, start = given["input_ids"][:1], _first_position(variant)
    # One text is of one token, and the longest one is not the first.
    texts = (ids[:, :BOUNDARY], ids[:, BOUNDARY : BOUNDARY + 1], ids[:, BOUNDARY:])
    places = [start + torch.arange(text.shape[1], device=ids.device)[None] for text in texts]
    joined = _run(variant, torch.cat(texts, 1), torch.cat(places, 1))
    isolated = [_run(variant, *each) for each in zip(texts, places, strict=True)]
    tokens = sum(text.shape[1] for text in texts)
    expected = {
        name: torch.cat([one[name] for one in isolated], 1 if tensor.shape[1] == tokens else 0)
        for name, tensor in joined.items()
    }
    wrong = [name for name in joined if joined[name].shape != expected[name].shape]
    if wrong:
        shapes = (f"{name} is {tuple(joined[name].shape)}" for name in wrong)
        return Verdict("FAIL", f"{', '.join(shapes)} for three texts in one row")
    route = replace(pair.routes[0], bound=REORDERED)
    return decide(context, differences(expected, joined), route, "each text alone")


def _first_position(model: PreTrainedModel) -> int:
    """The first position: RoBERTa's positions start after that of padding."""
    for name, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            return int(padding) + 1
    return 0


def _run(model: PreTrainedModel, ids: Tensor, places: Tensor) -> Mapping[str, Tensor]:
    with torch.no_grad(), compute_in_float64():
        cache = {"use_cache": False} if takes_cache(type(model)) else {}
        out = model.eval()(input_ids=ids, position_ids=places, return_dict=True, **cache)
    return dict(outputs(out))


# --- Check the outputs at padding in a variant that does not compute it


def check_padding(context: CheckContext) -> Verdict:
    """Check that the base model returns zeros at padding, as the part promises."""
    pair = context.pair
    _, variant = pair.models(pair.routes[0], context.dtype)
    inputs = pair.inputs(context.case.scenario, context.dtype)
    base = variant.base_model.eval()
    if not pair.is_causal and not bool(inputs.real[0][:, 0].all()):
        raise NothingToCompare("heads read the first place of each row, which is padding here")
    given = {
        name: tensor
        for name, tensor in inputs.given.items()
        if name in ("input_ids", "attention_mask")
    }
    with torch.no_grad():
        states = base(**given, use_cache=False, return_dict=True).last_hidden_state
    wrong = int(states[~inputs.real[0]].count_nonzero())
    return Verdict("FAIL" if wrong else "PASS", f"{wrong} values are not zero at padding")


# --- Check that each dropout rate moves the variant as far as it moves the parent
#
# For variants that draw random numbers in another order than the parent.  No single step can be
# compared then, but how far dropout moves the outputs on average can.

RATE = 0.3
STEPS = 24
# The factor that two such means may differ by.  Twice the rate moves outputs by half as much again,
# and no dropout moves nothing.
ALLOWED_FACTOR = 1.25


def check_dropout(context: CheckContext) -> Verdict:
    """Check the rate that the case's detail names, with all other rates zero."""
    pair, name = context.pair, context.case.detail
    if all(part_check.same_rng_order for part_check in pair.part_checks):
        raise NothingToCompare("it draws as the parent does, and is compared step by step")
    if name not in pair.config().to_dict():
        raise NothingToCompare(f"the configuration has no {name}")
    route = pair.routes[0]
    with_dropout = Pair(pair.variant, pair.head, pair.device, {**pair.changes, name: RATE})
    parent, variant = with_dropout.models(route, torch.float32)
    theirs, ours = (_moved(model, context, with_dropout) for model in (parent, variant))
    note = f"{name} of {RATE} moves outputs by {ours:.3g}, the parent's by {theirs:.3g}"
    if not theirs:
        raise NothingToCompare(f"{name} moves nothing in the parent")
    near = theirs / ALLOWED_FACTOR <= ours <= theirs * ALLOWED_FACTOR
    return Verdict("PASS" if near else "FAIL", note)


@torch.no_grad()
def _moved(model: PreTrainedModel, context: CheckContext, pair: Pair) -> float:
    """Root mean square of the change of the first output by dropout, relative to the output."""
    inputs = pair.inputs(context.case.scenario, torch.float32)
    still = _first(model.eval(), inputs.given)
    real = next((mask for mask in inputs.real if mask.shape == still.shape[:2]), ...)
    still = still[real]
    model.train()
    torch.manual_seed(0)
    noise = [(_first(model, inputs.given)[real] - still).square().mean() for _ in range(STEPS)]
    model.eval()
    return float((torch.stack(noise).mean() / still.square().mean()).sqrt())


def _first(model: PreTrainedModel, given: dict[str, Tensor]) -> Tensor:
    return next(tensor for _, tensor in outputs(model(**given, return_dict=True)))
