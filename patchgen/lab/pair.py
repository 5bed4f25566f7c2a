"""A class of a variant and its parent's, built tiny from one checkpoint, and what each is seen to do."""

from __future__ import annotations

import copy
import functools
import importlib
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.lab.claim import Claim, Observation, Route, Rows, Scene, Specimen, reload, strictly_loaded
from patchgen.lab.evidence import Evidence, gathered
from patchgen.lab.specimen import BOUNDARY, LARGEST, CannotBuild, Inputs, inputs_for
from patchgen.lab.step import observe_step, takes_cache
from patchgen.lab.subject import Subject
from patchgen.lab.tiny import tiny_config
from patchgen.lab.tolerance import REORDERED, loosest
from patchgen.lab.weights import draw_weights


def claims_of(parts: tuple[str, ...]) -> tuple[Claim, ...]:
    """What each of `parts` claims.  Raises LookupError for a part that claims nothing: it would go unproven."""
    found = []
    for part in parts:
        try:
            found.append(importlib.import_module(f"patchgen.lab.claims.{part}").CLAIM)
        except ModuleNotFoundError as error:
            if error.name != f"patchgen.lab.claims.{part}":
                raise
            raise LookupError(f"the part {part} has no claim in patchgen/lab/claims/{part}.py") from error
    return tuple(found)


# The parent as it is by default.
PLAIN = Route("its defaults", REORDERED)


def merged_routes(claims: tuple[Claim, ...], parent_class: type[PreTrainedModel]) -> tuple[Route, Route]:
    """The closest computation of the parent that all claims know, and the most independent one."""
    if not claims:  # made by hand
        return PLAIN, PLAIN
    each = [claim.routes(parent_class) for claim in _those_of_attention_last(claims)]
    return _merge([routes[0] for routes in each]), _merge([routes[-1] for routes in each])


def _those_of_attention_last(claims: tuple[Claim, ...]) -> list[Claim]:
    """What a part that leaves attention alone says of it is a default; the part that computes it has the word."""
    return sorted(claims, key=lambda claim: claim.attentions is not None)


def _merge(routes: list[Route]) -> Route:
    parent: dict[str, Any] = {}
    variant: dict[str, Any] = {}
    for route in routes:
        for into, settings in ((parent, route.parent), (variant, route.variant)):
            for name, value in settings.items():
                if name == "attn_implementation":
                    into[name] = value
                elif into.setdefault(name, value) != value:
                    raise ValueError(f"claims disagree about {name}: {into[name]!r} and {value!r}")
    name = " + ".join(dict.fromkeys(route.name for route in routes))
    return Route(name, loosest(route.bound for route in routes), parent, variant)


@dataclass(frozen=True)
class Pair:
    """One class on both sides; models and observations are kept for as long as it lives."""

    subject: Subject
    head: str
    device: str = "cpu"
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the tiny configuration

    @functools.cached_property
    def module(self) -> ModuleType:
        if self.subject.home not in sys.path:
            sys.path.insert(0, self.subject.home)
        return importlib.import_module(self.subject.module)

    @functools.cached_property
    def claims(self) -> tuple[Claim, ...]:
        return claims_of(self.subject.parts)

    @functools.cached_property
    def variant_class(self) -> type[PreTrainedModel]:
        return getattr(self.module, self.head)

    @functools.cached_property
    def parent_class(self) -> type[PreTrainedModel]:
        """The parent's class of the same name, or of the same ending where the variant has a prefix of its own."""
        parent = importlib.import_module(self.subject.parent)
        if hasattr(parent, self.head):
            return getattr(parent, self.head)
        ending = _ending(self.head)
        public = [n for n in parent.__all__ if _ending(n) == ending and not n.endswith("PreTrainedModel")]
        if len(public) != 1:
            raise CannotBuild(f"{self.subject.parent} has no class that corresponds to {self.head}")
        return getattr(parent, public[0])

    @functools.cached_property
    def routes(self) -> tuple[Route, Route]:
        return merged_routes(self.claims, self.parent_class)

    @functools.cached_property
    def build(self) -> Any:
        own = [claim.build for claim in self.claims if claim.build is not reload]
        return own[0] if own else reload

    def config(self, dropout: float = 0.0, **changes: Any) -> PreTrainedConfig:
        return tiny_config(self.parent_class.config_class, dropout, **{**self.changes, **changes})

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
            self._models[key] = self._build(route, dtype, dropout)
        return copy.deepcopy(self._models[key]) if fresh else self._models[key]

    def _build(self, route: Route, dtype: torch.dtype, dropout: float) -> tuple[PreTrainedModel, PreTrainedModel]:
        more = self._in_float64(dtype)
        with tempfile.TemporaryDirectory() as folder, quiet():
            master = self.master(dtype, dropout)
            master.save_pretrained(Path(folder, "parent"))
            settings = {**route.parent, **more}
            parent = strictly_loaded(self.parent_class, Path(folder, "parent"), dtype=dtype, **settings)
            place = Path(folder, "variant")
            place.mkdir()
            variant = self.build(master, self.variant_class, place, {**route.variant, **more})
        return parent.to(self.device).eval(), variant.to(self.device).eval()

    def master(self, dtype: torch.dtype, dropout: float = 0.0) -> PreTrainedModel:
        """The parent with weights that show errors, on the CPU."""
        try:
            config = self.config(dropout)
            with torch.device("meta"):
                size = sum(parameter.numel() for parameter in self.parent_class(config).parameters())
        except (TypeError, ValueError, AttributeError, KeyError, NotImplementedError) as error:
            what = f"{type(error).__name__}: {error}"
            raise CannotBuild(f"{self.parent_class.__name__} does not take a tiny configuration: {what}") from error
        if size > LARGEST:
            raise CannotBuild(f"has {size:,} parameters at its tiniest, more than {LARGEST:,}")
        model = self.parent_class(config).to(dtype).eval()
        draw_weights(model)
        return model

    def _in_float64(self, dtype: torch.dtype) -> dict[str, Any]:
        # Grouped matmul has no float64: both sides loop over experts.
        loop = dtype == torch.float64 and self.parent_class._can_set_experts_implementation()
        return {"experts_implementation": "eager"} if loop else {}

    # --- observations

    def inputs(self, scene: Scene, dtype: torch.dtype, seed: int = 0) -> Inputs:
        return inputs_for(self.parent_class, self.config(), scene, seed).to(self.device, dtype)

    @functools.cached_property
    def _seen(self) -> dict[Any, dict[str, Tensor]]:
        return {}

    def parent_sees(
        self, route: Route, dtype: torch.dtype, scene: Scene, *, weights: bool = False
    ) -> dict[str, Tensor]:
        """The parent's side; it is never checkpointed."""
        key = (route.name, dtype, repr(replace(scene, checkpointing=None)), weights)
        if key not in self._seen:
            parent, _ = self.models(route, dtype, scene.dropout)
            inputs = self.inputs(scene, dtype)
            try:
                self._seen[key] = observe_step(parent, inputs, scene, weights=weights, checkpointing=False)
            except (RuntimeError, TypeError) as error:  # XLNet's positions are float32 whatever the model is
                raise CannotBuild(f"the parent itself does not run so: {error}") from error
        return self._seen[key]

    def variant_sees(
        self,
        route: Route,
        dtype: torch.dtype,
        scene: Scene,
        *,
        weights: bool = False,
        model: PreTrainedModel | None = None,
    ) -> Observation:
        """The variant's side, in the parent's terms."""
        variant = model if model is not None else self.models(route, dtype, scene.dropout)[1]
        seen: Observation = observe_step(variant, self.inputs(scene, dtype), scene, weights=weights)
        for claim in self.claims:
            seen = claim.terms(seen, variant)
        return seen

    def shown(self, seen: Observation, scene: Scene) -> dict[str, Tensor]:
        """Without what the variant documents that it hides in `scene`."""
        hidden = [h.pattern for claim in self.claims for h in claim.hides if h.when(scene)]
        return {name: t for name, t in seen.items() if not any(fnmatch(name, pattern) for pattern in hidden)}

    def evidence(self, scene: Scene) -> tuple[Evidence, Evidence]:
        """What parent and variant run along the first route, in float32."""
        route, gathered_ = self.routes[0], []
        models = self.models(route, torch.float32, scene.dropout)
        for model, checkpointing in zip(models, (False, True), strict=True):
            with gathered(model) as evidence:
                observe_step(model, self.inputs(scene, torch.float32), scene, checkpointing=checkpointing)
            gathered_.append(evidence)
        return gathered_[0], gathered_[1]

    # --- what is measured of the parent

    @functools.cached_property
    def specimen(self) -> Specimen:
        inputs = self.inputs(Scene(), torch.float32)
        return Specimen(
            self.parent_class, self.variant_class, self.config(), inputs.given, inputs.lengths, self.is_causal
        )

    @functools.cached_property
    def is_causal(self) -> bool:
        """No output of the parent depends on a later token of the text."""
        return self._is_apart("full", changed=-1, looked_at=slice(0, -1))

    @functools.cached_property
    def keeps_packed_apart(self) -> bool:
        """The second of two texts in a row does not see the first."""
        return self._is_apart("packed", changed=0, looked_at=slice(BOUNDARY, None))

    def _is_apart(self, rows: Rows, changed: int, looked_at: slice) -> bool:
        parent, _ = self.models(self.routes[0], torch.float32)
        given = self.inputs(Scene(rows=rows, labels=False), torch.float32).given
        if "input_ids" not in given or "MultipleChoice" in self.head:
            return False
        states = []
        asked = {
            "output_hidden_states": True,
            "return_dict": True,
            **({"use_cache": False} if takes_cache(self.parent_class) else {}),
        }
        with torch.no_grad():
            for shift in (0, 1):
                ids = given["input_ids"].clone()
                ids[:, changed] = (ids[:, changed] + shift - 3) % 90 + 3
                out = parent.eval()(**{**given, "input_ids": ids}, **asked)
                hidden = out.get("hidden_states") or out.get("encoder_hidden_states") or (out[0],)
                states.append(hidden[-1])
        # Rounding of sums that have a masked term more or less; what is attended to moves states by far more.
        return torch.allclose(states[0][:, looked_at], states[1][:, looked_at], rtol=1e-4, atol=1e-4)


def _ending(name: str) -> str:
    return re.sub(
        r"^.*?(?=(?:ForC|ForM|ForS|ForT|ForQ|ForP|ForN|ForI|ForA|LMHead|DoubleHeads|Model$|Encoder))", "", name
    )


@contextmanager
def quiet() -> Iterator[None]:
    """No bars of transformers for checkpoints of a hundred kilobytes."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
