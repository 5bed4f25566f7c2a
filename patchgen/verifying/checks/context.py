"""A `Case`, the argument of its check, `CheckContext`, its `Verdict`, and what rounding may do.

How far two right computations are apart depends on the model (T5 does not divide its scores, so
random weights spread them widely), on the inputs and on the processor: one without instructions for
bfloat16 rounds elsewhere.  So the parent's own rounding is measured, on this machine and in this
run, and nothing of it is a constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.verifying.differences import (
    NARROW,
    Gaps,
    differences,
    find_other_dtypes,
    measure_in_noise,
    nearer,
    usual,
    worst,
)
from patchgen.verifying.inputs.arguments import CannotBuild, Inputs
from patchgen.verifying.models.pair import Pair
from patchgen.verifying.parts.part_check import Observation, Route, Rows, Scenario
from patchgen.verifying.report import Status

DRAWS = (0, 1, 2)  # seeds of inputs on which the parent's noise is measured, the case's own first
# Two ways to sum are so many times further apart than float32 is from float64: at most 6.4 were
# measured, where T5 computes keys and values by one product.
REORDERING = 16


class NothingToCompare(Exception):
    """There is nothing to compare; the message says why."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question about a variant.  `kind` is a key of `case_runner.CHECKS`."""

    name: str
    kind: str
    head: str
    dtype: str = "float32"
    route: int = 0  # 0: the closest, 1: the most independent, 2: both sides eager
    scenario: Scenario = Scenario()
    # Changes of the configuration.
    changes: tuple[tuple[str, Any], ...] = ()
    # An argument of the kind: the name of a planted error, of an attention, of a compiler.
    detail: str = ""
    # The attention function of a cache: a key of `checks.interface`; "" is the variant's own.
    attention: str = ""
    # Beside the parent itself, at the neutral point that the modular file names.
    neutral: bool = False
    # It has in one case what others have alone: a verdict does not wait for it.
    combines: bool = False
    # Nothing says that the model takes `changes`: if it refuses them, there is nothing to compare.
    drawn: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fields of a `Result` that a check decides."""

    status: Status
    note: str = ""
    difference: float | None = None
    bound: float | None = None
    unit: str = ""
    cause: str = ""


def judge(is_right: bool, note: str, *measured: Any) -> Verdict:
    """PASS or FAIL; `measured` are a difference, its bound and their unit."""
    return Verdict("PASS" if is_right else "FAIL", note, *measured)


@dataclass(frozen=True, slots=True)
class View:
    """One way to observe both sides of a pair."""

    pair: Pair
    route: Route
    dtype: torch.dtype
    scenario: Scenario
    weights: bool = False  # of attention too

    @property
    def is_narrow(self) -> bool:
        """Whether differences are measured in units of the parent's noise."""
        return self.dtype in NARROW or self.scenario.autocast

    @property
    def allowed(self) -> float:
        """What the route's bound allows here."""
        also = [self.scenario.autocast_to] if self.scenario.autocast else []
        return self.route.bound.at(self.dtype, *also)

    def parent(self, seed: int = 0) -> Observation:
        asked = self.route, self.dtype, self.scenario
        return self.pair.observe_parent(*asked, weights=self.weights, seed=seed)

    def variant(self, seed: int = 0, model: PreTrainedModel | None = None) -> Observation:
        asked = self.route, self.dtype, self.scenario
        return self.pair.observe_variant(*asked, weights=self.weights, seed=seed, model=model)

    def exact(self, seed: int = 0) -> Observation:
        """The parent in float64, or in float32 where it does not run in that."""
        plain = replace(self, dtype=torch.float64, scenario=replace(self.scenario, autocast=False))
        try:
            return plain.parent(seed)
        except CannotBuild:
            return replace(plain, dtype=torch.float32).parent(seed)

    def noise(self, *seeds: int) -> Gaps:
        draws = [differences(self.exact(seed), self.parent(seed)) for seed in seeds]
        return usual(draws[0], *draws[1:])

    def measure_bound(self) -> float:
        """What the bound allows, or what the parent's own rounding does if that is more."""
        bound = self.route.bound
        if not bound.roundings:
            return self.allowed
        # Without random numbers, which may depend on the dtype.
        how = replace(self.scenario, checkpointing=None, train=False, dropout=0.0)
        plain = replace(self, scenario=how, weights=False)
        try:
            if self.is_narrow:
                noise = plain.noise(*DRAWS)
                draws = (measure_in_noise(plain.noise(seed), noise) for seed in DRAWS)
                sizes = [each.largest for draw in draws for each in draw]
                return self.allowed * max(1.0, max(filter(math.isfinite, sizes), default=1.0))
            exact = replace(plain, dtype=torch.float64).parent()
            rounded = replace(plain, dtype=torch.float32).parent()
        except CannotBuild:  # XLNet's positions are float32 whatever the model is
            return self.allowed
        # What is there in one dtype alone, such as the gradient of an expert, is no rounding.
        sizes = [each.largest for each in differences(exact, rounded)]
        own = max(filter(math.isfinite, sizes), default=0.0) / torch.finfo(torch.float32).eps
        return max(self.allowed, replace(bound, roundings=REORDERING * own).at(self.dtype))

    def compare(self, observed: Observation, *, enough: float = 0.0, seed: int = 0) -> Gaps:
        """The differences between the parent's observation and `observed`, the largest first.

        In a narrow dtype they are in units of noise, and each tensor is compared with the nearer of
        the parent's own and the parent's in float64: a variant as near to the truth as its parent,
        on the other side, is not wrong.  A tensor of another dtype is infinitely far, unless a part
        declares it.

        Each draw of inputs and each route on which noise is measured takes time: where the first
        alone shows differences of at most `enough`, that is the answer.
        """
        pair = self.pair
        scenario = self.scenario
        ours = dict(observed)
        reference = self.parent(seed)
        found = differences(reference, ours)
        if not self.is_narrow:
            return found
        own_dtypes = any(part_check.own_dtypes(scenario) for part_check in pair.part_checks)
        others = () if own_dtypes else find_other_dtypes(reference, ours)
        of_truth = differences(self.exact(seed), ours)

        def measured(*noises: Gaps) -> Gaps:
            near = measure_in_noise(found, *noises), measure_in_noise(of_truth, *noises)
            return (*others, *nearer(*near))

        if enough and worst(first := measured(self.noise(seed))) <= enough:
            return first
        draws = (seed, *(each for each in DRAWS if each != seed))
        noises = [replace(self, route=route).noise(*draws) for route in pair.routes]
        if own_dtypes and scenario.autocast:
            # What autocast leaves in float32, such a part keeps in the narrow dtype, as the parent
            # does whose weights are in that dtype.
            plain = replace(
                self, dtype=scenario.autocast_to, scenario=replace(scenario, autocast=False)
            )
            noises.append(plain.noise(*draws))
        return measured(*noises)


@dataclass(frozen=True, slots=True)
class CheckContext:
    pair: Pair
    case: Case

    @property
    def dtype(self) -> torch.dtype:
        return getattr(torch, self.case.dtype)

    def view(self, route: Route | None = None, *, weights: bool = False) -> View:
        route = route or self.pair.route(self.case.route)
        return View(self.pair, route, self.dtype, self.case.scenario, weights)

    def model(self, *, fresh: bool = False) -> PreTrainedModel:
        """The variant along the closest route; a `fresh` one may be spoilt."""
        return self.pair.models(self.pair.routes[0], self.dtype, fresh=fresh)[1]

    def inputs(self, scenario: Scenario | None = None) -> Inputs:
        """Those of the case's scenario, unless another is given."""
        return self.pair.inputs(scenario or self.case.scenario, self.dtype)

    def given(self, rows: Rows = "full", *, labels: bool = False) -> dict[str, Tensor]:
        return self.inputs(Scenario(rows=rows, labels=labels)).given


def decide(context: CheckContext, found: Gaps, route: Route, against: str = "") -> Verdict:
    """PASS if the largest of `found`, which is the first, is within the route's bound.

    `against`: what was compared with, if not the parent under the route.
    """
    first = found[0]
    view = context.view(route)
    bound = view.allowed if first.largest <= view.allowed else view.measure_bound()
    note = f"{route.bound.name} to {against or f'the parent under {route.name}'}"
    status: Status = "PASS"
    if not first.largest <= bound:
        status = "FAIL"
        note = f"{note}; {'; '.join(map(str, found[:3]))}"
    elif first.largest:
        note = f"{note}; most in {first.name}"
    return Verdict(status, note, first.largest, bound, "noises" if view.is_narrow else "relative")


def require_scenario(pair: Pair, scenario: Scenario) -> None:
    """Raises NothingToCompare if the parent does not have what the scenario asks for."""
    if scenario.rows in ("packed", "several") and not pair.isolates_packed_texts:
        pair.inputs(scenario, torch.float32)
        raise NothingToCompare("the parent does not keep packed rows apart")
    own_order = any(not part_check.same_rng_order for part_check in pair.part_checks)
    if scenario.train and scenario.dropout and own_order:
        raise NothingToCompare("random numbers are drawn in another order")
    if scenario.accumulate > 1:
        labelled = "labels" in pair.inputs(scenario, torch.float32).given
        kinds = {p.kind for p in signature(pair.parent_class.forward).parameters.values()}
        if not labelled or Parameter.VAR_KEYWORD not in kinds:  # as `Trainer` finds out
            raise NothingToCompare("its loss takes no num_items_in_batch")
    checkpoints = pair.variant_class.supports_gradient_checkpointing
    if scenario.checkpointing is not None and not checkpoints:
        raise NothingToCompare("it has no gradient checkpointing")
