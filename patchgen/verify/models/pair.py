"""A class of a variant beside its parent's, and what each of the two is seen to do."""

from __future__ import annotations

import copy
import functools
import inspect
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.verify.configs.tiny import tiny_config
from patchgen.verify.differences import REORDERED, loosest
from patchgen.verify.inputs.arguments import CannotBuild, Inputs
from patchgen.verify.inputs.dummy import make_inputs
from patchgen.verify.models.build import build_both, build_parent, silence_progress
from patchgen.verify.models.classes import find_parent_class, module_of
from patchgen.verify.observe.evidence import Evidence, gather_evidence
from patchgen.verify.observe.step import is_causal, isolates_packed_texts, observe_step
from patchgen.verify.parts.combine import both_eager, find_part_checks, merge_routes, weights_route
from patchgen.verify.parts.part_check import (
    Observation,
    PairFacts,
    PartCheck,
    Route,
    Scenario,
    reload,
)
from patchgen.verify.variants import SETTING, Variant


@dataclass(frozen=True)
class Pair:
    """One class on both sides; models and observations are kept for as long as it lives."""

    variant: Variant
    head: str
    device: str = "cpu"
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the tiny configuration
    seed: int = 0  # of weights and inputs
    is_neutral: bool = False  # beside the parent itself, with what makes the variant equal to it

    @functools.cached_property
    def module(self) -> ModuleType:
        return module_of(self.variant)

    @functools.cached_property
    def part_checks(self) -> tuple[PartCheck, ...]:
        return find_part_checks(self.variant.checked_parts)

    @functools.cached_property
    def variant_class(self) -> type[PreTrainedModel]:
        return getattr(self.module, self.head)

    @functools.cached_property
    def parent_class(self) -> type[PreTrainedModel]:
        return find_parent_class(self.variant, self.head)

    @functools.cached_property
    def plain_parent_class(self) -> type[PreTrainedModel]:
        """The parent's class as transformers has it, whatever differs on purpose."""
        return find_parent_class(replace(self.variant, differs=()), self.head)

    @functools.cached_property
    def plain_parent(self) -> PreTrainedModel:
        """A model of it in float64, on the CPU."""
        return build_parent(self.plain_parent_class, self.config(), torch.float64, self.seed)

    @functools.cached_property
    def new_parameters(self) -> tuple[str, ...]:
        """Those that the parent's checkpoint does not have; none where a part converts it."""
        if self.build is not reload:
            return ()
        with tempfile.TemporaryDirectory() as folder, silence_progress():
            self.plain_parent.save_pretrained(folder)
            model, report = self.variant_class.from_pretrained(folder, output_loading_info=True)
        missing = set(map(str, report["missing_keys"]))
        return tuple(name for name, _ in model.named_parameters() if name in missing)

    def of_parent(self) -> Pair:
        """The parent beside itself."""
        name = self.parent_class.__name__
        none: Any = dict.fromkeys(("parts", "changes", "differs"), ())
        variant = replace(self.variant, module=self.variant.parent, heads=(name,), **none)
        return Pair(variant, name, self.device, self.changes, self.seed)

    @functools.cached_property
    def routes(self) -> tuple[Route, Route]:
        return merge_routes(self.part_checks, self.parent_class)

    @functools.cached_property
    def eager_route(self) -> Route:
        """Along which both sides write their attention out."""
        closest, independent = self.routes
        return replace(both_eager(closest), bound=loosest([independent.bound, REORDERED]))

    def route(self, number: int) -> Route:
        """0: the closest, 1: the most independent, 2: both eager."""
        return (*self.routes, self.eager_route)[number]

    @functools.cached_property
    def weights_route(self) -> Route:
        return weights_route(self.part_checks, self.routes)

    @functools.cached_property
    def build(self) -> Any:
        if self.is_neutral:
            return functools.partial(_build_neutral, self.variant)
        return next((each.build for each in self.part_checks if each.build is not reload), reload)

    def config(self, dropout: float = 0.0, **changes: Any) -> PreTrainedConfig:
        key = f"{dropout} {changes!r}"
        if key not in self._configs:
            changes = {**self.changes, **changes}
            self._configs[key] = tiny_config(self.parent_class.config_class, dropout, **changes)
        return copy.deepcopy(self._configs[key])

    @functools.cached_property
    def _configs(self) -> dict[str, PreTrainedConfig]:
        return {}

    @functools.cached_property
    def parent_scales_its_loss(self) -> bool:
        """Whether its forward takes `num_items_in_batch`, as `Trainer` finds out."""
        kinds = {p.kind for p in inspect.signature(self.parent_class.forward).parameters.values()}
        return inspect.Parameter.VAR_KEYWORD in kinds

    # --- models

    @functools.cached_property
    def _models(self) -> dict[Any, tuple[PreTrainedModel, PreTrainedModel]]:
        return {}

    def models(
        self, route: Route, dtype: torch.dtype, dropout: float = 0.0, *, fresh: bool = False
    ) -> tuple[PreTrainedModel, PreTrainedModel]:
        """Parent and variant with equal weights; `fresh` ones may be spoilt."""
        key = (route.name, dtype, dropout)
        if key not in self._models:
            self._models[key] = self.built(route, dtype, dropout)
        if not fresh:
            return self._models[key]
        try:
            return copy.deepcopy(self._models[key])
        except RuntimeError:  # LeViT keeps biases that it has computed, which cannot be copied
            return self.built(route, dtype, dropout)

    def built(
        self, route: Route, dtype: torch.dtype, dropout: float = 0.0
    ) -> tuple[PreTrainedModel, PreTrainedModel]:
        parent, variant = build_both(
            self.master(dtype, dropout), self.variant_class, self.build, route
        )
        return parent.to(self.device), variant.to(self.device)

    def master(self, dtype: torch.dtype, dropout: float = 0.0) -> PreTrainedModel:
        """The parent with weights that show errors, on the CPU."""
        try:
            config = self.config(dropout)
        except Exception as error:  # each configuration has its own
            name, what = self.parent_class.__name__, f"{type(error).__name__}: {error}"
            raise CannotBuild(f"{name} has no tiny configuration: {what}") from error
        return build_parent(self.parent_class, config, dtype, self.seed)

    # --- observations

    def inputs(self, scenario: Scenario, dtype: torch.dtype, seed: int = 0) -> Inputs:
        drawn = make_inputs(self.parent_class, self.config(), scenario, seed + 97 * self.seed)
        return drawn.to(self.device, dtype)

    @functools.cached_property
    def _observations(self) -> dict[Any, dict[str, Tensor]]:
        return {}

    def observe_parent(
        self,
        route: Route,
        dtype: torch.dtype,
        scenario: Scenario,
        *,
        weights: bool = False,
        seed: int = 0,
    ) -> dict[str, Tensor]:
        """The parent's side; it is never checkpointed.  `seed` draws other inputs."""
        key = (route.name, dtype, repr(replace(scenario, checkpointing=None)), weights, seed)
        if key not in self._observations:
            parent, _ = self.models(route, dtype, scenario.dropout)
            inputs, how = self.inputs(scenario, dtype, seed), {"checkpointing": False}
            try:
                observed = observe_step(parent, inputs, scenario, weights=weights, **how)
                self._observations[key] = observed
            except Exception as error:  # each has its own: XLNet's positions are always float32
                raise CannotBuild(f"the parent itself does not run so: {error}") from error
        return self._observations[key]

    def observe_variant(
        self,
        route: Route,
        dtype: torch.dtype,
        scenario: Scenario,
        *,
        weights: bool = False,
        model: PreTrainedModel | None = None,
        seed: int = 0,
    ) -> Observation:
        """The variant's side, in the parent's terms."""
        variant = model if model is not None else self.models(route, dtype, scenario.dropout)[1]
        inputs = self.inputs(scenario, dtype, seed)
        observed: Observation = observe_step(variant, inputs, scenario, weights=weights)
        for part_check in self.part_checks:
            observed = part_check.terms(observed, variant)
        if self.is_neutral:
            parent = self.observe_parent(route, dtype, scenario, weights=weights)
            observed = {name: tensor for name, tensor in observed.items() if name in parent}
        return observed

    def without_hidden(
        self, observed: Observation, scenario: Scenario, given: Collection[str] = ()
    ) -> dict[str, Tensor]:
        """Without what the variant documents that it hides in `scenario`.

        What it gives all the same, by the names in `given`, stays: it has to be the parent's.
        """
        return {
            name: tensor
            for name, tensor in observed.items()
            if name in given or not self.explain_hidden(name, scenario)
        }

    def explain_hidden(self, name: str, scenario: Scenario) -> tuple[str, ...]:
        """Why the variant does not give this observation in `scenario`; empty if it does."""
        hides = (
            hidden
            for part_check in self.part_checks
            for hidden in part_check.hides
            if hidden.when(scenario, self.changes)
        )
        return tuple(hidden.why for hidden in hides if fnmatch(name, hidden.pattern))

    def evidence(self, scenario: Scenario) -> tuple[Evidence, Evidence]:
        """What parent and variant run along the first route, in float32."""
        inputs, gathered = self.inputs(scenario, torch.float32), []
        for side, model in enumerate(self.models(self.routes[0], torch.float32, scenario.dropout)):
            with gather_evidence(model) as evidence:
                observe_step(model, inputs, scenario, checkpointing=bool(side))
            gathered.append(evidence)
        return gathered[0], gathered[1]

    # --- what is measured of the parent

    @functools.cached_property
    def facts(self) -> PairFacts:
        inputs = self.inputs(Scenario(), torch.float32)
        given = self.config(), inputs.given, inputs.lengths, self.is_causal
        return PairFacts(self.parent_class, self.variant_class, *given)

    @functools.cached_property
    def is_causal(self) -> bool:
        """No output of the parent depends on a later token of the text."""
        return is_causal(self._measured, self.inputs(Scenario(labels=False), torch.float32))

    @functools.cached_property
    def isolates_packed_texts(self) -> bool:
        """The second of two texts in a row does not see the first."""
        return isolates_packed_texts(
            self._measured, self.inputs(Scenario(rows="packed", labels=False), torch.float32)
        )

    @property
    def _measured(self) -> PreTrainedModel:
        return self.models(self.routes[0], torch.float32)[0]


def _build_neutral(
    variant: Variant,
    parent: PreTrainedModel,
    variant_class: type[PreTrainedModel],
    folder: Path,
    settings: Mapping[str, Any],
) -> PreTrainedModel:
    """The variant from the parent's checkpoint, with new parameters at their neutral values."""
    parent.save_pretrained(folder)
    model = variant_class.from_pretrained(folder, dtype=parent.dtype, **settings)
    theirs = set(parent.state_dict())
    values = {name: value for name, value in variant.equal_if if not name.startswith(SETTING)}
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in theirs:
                normal = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
                parameter.copy_(normal)
            for ending, value in values.items():
                if name.endswith(ending):
                    parameter.fill_(value)
    return model
