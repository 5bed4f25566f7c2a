"""The two models of a comparison while an error is planted in the variant."""

from __future__ import annotations

import copy
import functools
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from transformers import PreTrainedModel

from patchgen.verify.models.build import build_variant
from patchgen.verify.models.pair import Pair
from patchgen.verify.mutation.restore import kept
from patchgen.verify.parts.part_check import PairFacts, Route


@dataclass(frozen=True)
class MutatedPair(Pair):
    """`right` with `wrong`, the module with the error; `is_built_anew` where it makes models."""

    right: Pair = field(kw_only=True)
    wrong: ModuleType = field(kw_only=True)
    is_built_anew: bool = field(kw_only=True)
    loans: ExitStack = field(kw_only=True)  # closing it restores the right pair's models

    @property
    def module(self) -> ModuleType:
        return self.wrong

    def models(
        self, route: Route, dtype: torch.dtype, dropout: float = 0.0, *, fresh: bool = False
    ) -> tuple[PreTrainedModel, PreTrainedModel]:
        """The right pair's parent, and a variant that the error may spoil."""
        parent, variant = self.right.models(route, dtype, dropout)
        key = (route.name, dtype, dropout)
        if key not in self._models:
            with _disable_current_modes():  # no recording sees how a model is made
                self._models[key] = parent, self._lent(variant, route, dtype, dropout)
        return copy.deepcopy(self._models[key]) if fresh else self._models[key]

    def _lent(
        self, variant: PreTrainedModel, route: Route, dtype: torch.dtype, dropout: float
    ) -> PreTrainedModel:
        if not self.is_built_anew:
            return self.loans.enter_context(kept(variant))
        built = build_variant(
            self.right.master(dtype, dropout), self.variant_class, self.build, route
        )
        return built.to(self.device)

    @property
    def _observations(self) -> dict[Any, dict[str, Tensor]]:
        return self.right._observations

    @functools.cached_property
    def facts(self) -> PairFacts:
        right = self.right.facts
        return PairFacts(
            right.parent_class,
            self.variant_class,
            right.config,
            right.inputs,
            right.lengths,
            right.causal,
        )

    @property
    def is_causal(self) -> bool:
        return self.right.is_causal

    @property
    def isolates_packed_texts(self) -> bool:
        return self.right.isolates_packed_texts


def mutated(
    right: Pair, wrong: ModuleType, loans: ExitStack, *, is_built_anew: bool
) -> MutatedPair:
    """`right` with the error of the module `wrong`."""
    return MutatedPair(
        right.variant,
        right.head,
        right.device,
        right.changes,
        right.seed,
        right=right,
        wrong=wrong,
        is_built_anew=is_built_anew,
        loans=loans,
    )
