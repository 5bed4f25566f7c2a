"""The arguments of a forward, their sizes, and masks of the real tokens in them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

ROWS = 3
LENGTH = 13  # of text
ANSWER = 9  # tokens of a decoder behind an encoder
BOUNDARY = 6  # of two texts in one row
LARGEST = 5_000_000  # parameters


class CannotBuild(Exception):
    """A model or its inputs cannot be made here; the message says why."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Arguments of a forward, and a mask of real tokens for each sequence length."""

    given: dict[str, Tensor]
    real: tuple[Tensor, ...] = ()  # bool, (rows, length)
    options: Mapping[str, Any] = field(
        default_factory=dict
    )  # further arguments, which are no tensors

    def to(self, device: str, dtype: torch.dtype) -> Inputs:
        """Move all to `device`, and floating tensors to `dtype`."""
        given = {
            name: t.to(device, dtype if t.is_floating_point() else None)
            for name, t in self.given.items()
        }
        return replace(self, given=given, real=tuple(mask.to(device) for mask in self.real))

    def rows(self, first: int, last: int) -> Inputs:
        """Some of the rows."""
        given = {name: tensor[first:last] for name, tensor in self.given.items()}
        return replace(self, given=given, real=tuple(mask[first:last] for mask in self.real))

    @property
    def lengths(self) -> frozenset[int]:
        """The lengths of the sequences that attention may run over."""
        return frozenset(mask.shape[1] for mask in self.real)


def takes(model_class: type[PreTrainedModel]) -> frozenset[str]:
    """The names that the forward takes."""
    return frozenset(inspect.signature(model_class.forward).parameters)
