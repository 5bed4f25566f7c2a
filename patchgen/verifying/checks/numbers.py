"""Check the numbers of a variant beside the parent, with planted errors, and of its parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from transformers import PreTrainedModel

from patchgen.verifying.checks.context import (
    DRAWS,
    CheckContext,
    NothingToCompare,
    Verdict,
    View,
    decide,
    judge,
    require_scenario,
)
from patchgen.verifying.differences import MARGIN, REORDERED, Gaps, differences
from patchgen.verifying.inputs.arguments import CannotBuild
from patchgen.verifying.models.pair import Pair
from patchgen.verifying.observe.recorder import Args, Given, Listener, listening
from patchgen.verifying.observe.step import observe_step
from patchgen.verifying.parts.part_check import Observation, PlantedError
from patchgen.verifying.report import Status

# --- Check that one training step of the variant gives the same numbers as the parent's


def check_numbers(context: CheckContext) -> Verdict:
    pair = context.pair
    view = context.view()
    if context.case.route == 1 and pair.routes[0].name == pair.routes[1].name:
        name = view.route.name
        what = f"the parent has one computation, {name}, and it is compared as the closest"
        raise NothingToCompare(what)
    require_scenario(pair, view.scenario)
    theirs = view.parent()  # first: the variant need not do what the parent cannot
    lost = [name for name, tensor in theirs.items() if tensor.numel() and tensor.isnan().all()]
    if lost:
        raise NothingToCompare(f"the parent itself gives no numbers so: {lost[0]} is NaN")
    gaps = view.compare(_of_variant(context, view), enough=view.allowed)
    if gaps[0].largest > view.allowed and _sums_anew(view):
        bound = max(view.route.bound, REORDERED)
        view = replace(view, route=replace(view.route, bound=bound))
    if gaps[0].largest > view.allowed:
        gaps, view = _beside_eager(context, gaps, view)
    if view.is_narrow:
        gaps = _of_other_draws(context, gaps, view)
    return decide(context, gaps, view.route)


def _of_other_draws(context: CheckContext, gaps: Gaps, view: View) -> Gaps:
    """What rounding makes, as a token at another expert, is of one draw, an error is in all."""
    for seed in DRAWS[1:]:
        worst = gaps[0]
        bound = view.allowed
        if worst.largest > bound:
            bound = view.measure_bound()
        is_infinite = math.isinf(worst.largest) and not worst.missing
        if worst.largest <= bound or is_infinite:
            break
        again = view.compare(_of_variant(context, view, seed), seed=seed)
        gaps = min(gaps, again, key=lambda each: each[0].largest)
    return gaps


def _beside_eager(context: CheckContext, gaps: Gaps, view: View) -> tuple[Gaps, View]:
    """Beside the parent's eager attention, where that is as far from the parent as the variant is.

    At a query that sees nothing, which padding at the left makes, SDPA gives zeros and eager
    attention a mean.  Both are the parent, and a head may read them.
    """
    if view.is_narrow or context.case.route or context.pair.is_neutral:
        return gaps, view
    eager = replace(view, route=context.pair.eager_route)
    try:
        if differences(view.parent(), eager.parent())[0].largest <= view.allowed:
            return gaps, view
    except (CannotBuild, ValueError):  # it has no other
        return gaps, view
    for ours in (view, eager) if view.scenario.rows == "left" else (view,):
        beside = eager.compare(_of_variant(context, ours))
        if beside[0].largest <= eager.allowed:
            return beside, eager
    return gaps, view


def _of_variant(context: CheckContext, view: View, seed: int = 0) -> Observation:
    """Raises NothingToCompare if it refuses a guessed setting, or what a part says."""
    try:
        observed = view.variant(seed)
        refuses = any(check.refuses_a_loss(view.pair.changes) for check in view.pair.part_checks)
        if refuses and "loss" in observed and observed["loss"].isnan():
            raise NothingToCompare("the loss is NaN, as its part says")
        return observed
    except (ValueError, NotImplementedError) as error:
        ways = view.scenario.ways
        words = str(error)
        refusals: list[tuple[str, str]] = []
        for check in context.pair.part_checks:
            refusals.extend(check.refuses)
        announced = any(way in ways and what in words for what, way in refusals)
        if not (context.case.drawn or (announced and isinstance(error, ValueError))):
            raise
        raise NothingToCompare(f"refused: {error}") from error


def _sums_anew(view: View) -> bool:
    """Whether checkpointing moves the parent's own gradients, as of T5's position bias."""
    pair = view.pair
    scenario = view.scenario
    checkpoints = pair.parent_class.supports_gradient_checkpointing
    if scenario.checkpointing is None or not checkpoints:
        return False
    parent, _ = pair.models(view.route, view.dtype, scenario.dropout)
    inputs = pair.inputs(scenario, view.dtype)
    again = replace(scenario, checkpointing={})
    observed = observe_step(parent, inputs, again)
    return differences(view.parent(), observed)[0].largest > 0


# --- Check that the comparison notices an error that is planted in the variant


def measure_planted_error(pair: Pair, planted_error: PlantedError, dtype: torch.dtype) -> float:
    """How far the variant with this error is from the parent; infinite if it does not even run.

    Raises NothingToCompare or CannotBuild if the error does not fit the class, or if the variant
    does not run without it either: that would look like an error that was noticed.
    """
    if not planted_error.fits(pair.facts):
        raise NothingToCompare("this error would change nothing in this class")
    scenario = planted_error.scenario
    route = pair.routes[0]
    view = View(pair, route, dtype, scenario)
    require_scenario(pair, scenario)
    view.parent()
    _, variant = pair.models(route, dtype, scenario.dropout, fresh=True)
    try:
        with planted_error.apply(variant):
            observed = view.variant(model=variant)
    except (RuntimeError, ValueError):
        try:
            view.variant()
        except (RuntimeError, ValueError) as error:
            what = f"the variant does not run so without the error either: {error}"
            raise NothingToCompare(what) from error
        return math.inf
    return view.compare(observed)[0].largest


def check_planted_error(context: CheckContext) -> Verdict:
    pair = context.pair
    part, _, name = context.case.detail.partition(":")
    errors: list[PlantedError] = []
    for check in pair.part_checks:
        if check.part == part:
            errors.extend(check.planted_errors)
    planted_error = next(error for error in errors if error.name == name)
    difference = measure_planted_error(pair, planted_error, context.dtype)
    views = [View(pair, each, context.dtype, planted_error.scenario) for each in pair.routes]
    bound = max(view.allowed for view in views)
    is_narrow = views[0].is_narrow
    status: Status = "PASS"
    note = f"seen: {planted_error.says}"
    if not difference > bound:  # rounding may hide it, on some inputs; a wide dtype hides nothing
        status = "WARN" if is_narrow else "FAIL"
        note = f"not {note}"
    elif difference < MARGIN * bound:
        status = "WARN"
        note = f"seen, but less than {MARGIN} times the bound: {planted_error.says}"
    return Verdict(status, note, difference, bound, "noises" if is_narrow else "relative")


# --- Check that a loss without logits is as exact as the loss of the logits

# Both sum the same products in float32, and round a logit to the other side here and there.  Where
# logits are capped, the parent rounds each once more, and is up to 7e-4 off in twelve seeds of
# Gemma 2.  A loss that is summed in bfloat16 is some 2e-3 away.
CLOSE = 2e-4
CHUNK = "loss_chunk_size"
# A gradient of states that is summed in bfloat16, over chunks of two words, is three times as far.
TIMES = 2


_Draw = tuple[Tensor, Tensor]  # a loss, and the gradient of the states that it is computed from


def check_loss_beside_logits(context: CheckContext) -> Verdict:
    """Compare the variant's loss with its loss from logits, which `loss_chunk_size = 0` gives.

    And the gradients of states, which are equal bit for bit.  Beside the parent, the noise of a
    narrow dtype would hide what is summed in it.  The truth is that of a head in float32.
    """
    pair = context.pair
    scenario = context.case.scenario
    require_scenario(pair, scenario)
    variant = context.model(fresh=True)
    wide = context.model(fresh=True).float()
    head: Any = variant.get_output_embeddings()
    if head is None or not hasattr(pair.facts.module, "causal_loss"):
        raise NothingToCompare("it has no loss here, or computes logits of the labelled tokens")
    states = list[Tensor]()
    at_head = list[Tensor]()

    def keep(module: nn.Module, given: Any, out: Any) -> None:
        states.append(out[0])
        out[0].retain_grad()

    def widen(module: nn.Module, given: Any) -> tuple[Tensor]:
        states.append(at_head.pop(0).float().requires_grad_())
        return (states[-1],)

    def measure(model: PreTrainedModel, chunk: int) -> list[_Draw]:
        setattr(model.config, CHUNK, chunk)
        states.clear()
        losses = []
        for seed in DRAWS:
            inputs = pair.inputs(scenario, context.dtype, seed)
            losses.append(observe_step(model, inputs, scenario)["loss"])
        return [(loss, each.grad.double()) for loss, each in zip(losses, states, strict=True)]

    variant.base_model.register_forward_hook(keep)
    without = measure(variant, 1)
    head.register_forward_pre_hook(lambda _, given: at_head.append(given[0].detach()))
    wide.get_output_embeddings().register_forward_pre_hook(widen)
    whole = measure(variant, 0)
    truth = measure(wide, 0)
    apart, _ = _farthest(without, whole)
    error, gradient_error = _farthest(without, truth)
    noise, gradient_noise = _farthest(whole, truth)
    if gradient_error > TIMES * gradient_noise:
        note = "gradients of states, beside those of logits that are all there"
        return Verdict("FAIL", note, gradient_error, TIMES * gradient_noise, "relative")
    note = "the loss of logits that are all there"
    return judge(apart <= CLOSE or error <= noise, note, apart, CLOSE, "relative")


def _farthest(ours: Sequence[_Draw], theirs: Sequence[_Draw]) -> tuple[float, float]:
    """How far losses and gradients are apart in the worst of some batches.

    In one, rounding may be small.
    """
    losses: list[float] = []
    gradients: list[float] = []
    for (loss, gradient), (their_loss, their_gradient) in zip(ours, theirs, strict=True):
        losses.append(_relative(loss, their_loss))
        gradients.append(_relative(gradient, their_gradient))
    return max(losses), max(gradients)


def _relative(tensor: Tensor, reference: Tensor) -> float:
    return float((tensor - reference).norm() / reference.norm())


# --- Whether each norm and router alone rounds as the parent's does in a narrow dtype

# Of their values, those that may be one rounding apart: both compute in float32, and sum in another
# order.  A weight that is rounded first changes half of them.
MAY_DIFFER = 0.05
ROWS = 64
ALONE = ("Norm", "Router", "Gate", "Gating", "RotaryEmbedding")
FAR = 1000  # a place whose angle a narrow dtype cannot tell from the next


def check_norms(context: CheckContext) -> Verdict:
    """In a whole model the noise of the narrow dtype hides one rounding too many.

    With weights in that dtype, and with those in float32 that autocast leaves.
    """
    shares = dict[str, float]()
    for weights in (context.dtype, torch.float32):
        models = context.pair.models(context.pair.routes[0], context.dtype, fresh=True)
        parent, variant = (model.to(weights) for model in models)
        theirs = dict(parent.named_modules())
        for name, module in variant.named_modules():
            # Of the model's own file, with one weight for each place of a row.
            owner = type(module)
            is_own = owner.__module__ == type(variant).__module__
            is_rotary = owner.__name__.endswith("RotaryEmbedding")
            weight = getattr(module, "weight", torch.empty(1) if is_rotary else None)
            if not is_own or not owner.__name__.endswith(ALONE):
                continue
            if not isinstance(weight, Tensor):
                continue
            draw = torch.Generator().manual_seed(0)
            rows = torch.randn(ROWS, weight.shape[-1], generator=draw).to(context.dtype)
            given = [rows]
            if is_rotary:
                given = [rows[None], FAR + torch.arange(ROWS)[None]]
            try:
                wanted = _values_of(theirs[name], *given)
            except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
                continue  # the parent's takes something else
            apart = _share_apart(_values_of(module, *given), wanted)
            shares[name] = max(shares.get(name, 0.0), apart)
    if not shares:
        raise NothingToCompare("it has no norm or router of its own")
    name, most = max(shares.items(), key=lambda item: item[1])
    note = f"of {len(shares)} norms and routers, values of {name} that are not the parent's"
    return judge(most <= MAY_DIFFER, note, most, MAY_DIFFER, "share")


def _share_apart(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """The share of values that differ in the worst of some tensors."""
    if len(ours) != len(theirs):
        return 1.0
    worst = 0.0
    for one, two in zip(ours, theirs, strict=True):
        if one.dtype != two.dtype or one.shape != two.shape:
            return 1.0
        differs = one != two
        worst = max(worst, float(differs.double().mean()))
    return worst


@torch.no_grad()
def _values_of(module: nn.Module, *given: Tensor) -> list[Tensor]:
    return [each for each in tree_leaves(module.eval()(*given)) if isinstance(each, Tensor)]


# --- Check that each dropout rate drops as much as in the parent


class _Drops(Listener):
    """How many elements dropout leaves out, on average."""

    elements = 0.0

    def ran(self, operation: Any, args: Args, given: Given, out: Any) -> None:
        if operation.overloadpacket.__name__ in ("bernoulli_", "native_dropout"):
            is_kept = operation.overloadpacket.__name__ == "bernoulli_"
            self.elements += args[0].numel() * (1 - args[1] if is_kept else args[1])


def check_dropout(context: CheckContext) -> Verdict:
    """As many elements as in the parent; with padding those of real tokens at least."""
    pair = context.pair
    name = context.case.detail
    changes = {**pair.changes, name: 0.3}
    with_dropout = Pair(pair.variant, pair.head, pair.device, changes)
    inputs = with_dropout.inputs(context.case.scenario, torch.float32)
    dropped = list[int]()
    for model in with_dropout.models(pair.routes[0], torch.float32):
        with torch.no_grad(), listening(drops := _Drops()):
            model.train()(**inputs.given)
        dropped.append(round(drops.elements))
    theirs, ours = dropped
    if not theirs:
        raise NothingToCompare(f"{name} drops nothing in the parent")
    note = f"{name} drops {ours} elements, the parent's {theirs}"
    share = float(inputs.real[0].double().mean())
    least = theirs * share**2  # attention is over pairs
    return judge(least <= ours <= theirs, note)
