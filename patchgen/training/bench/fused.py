"""Layers that a variant has in one, over the weights that all contestants share.

Such a layer's weight is none of the stock model's: it is a parameter beside them, filled from its parts whenever these
are set back, and its gradient is shown as theirs where gradients are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, slots=True)
class FusedWeight:
    """The weight, or bias, of a fused layer, and the shared parameters whose rows lie in it, one above the other."""

    parameter: nn.Parameter
    parts: tuple[nn.Parameter, ...]

    def fill(self) -> None:
        """It has its parts' values, in their dtype, and no gradient."""
        self.parameter.grad = None
        with torch.no_grad():
            together = torch.cat([part.data for part in self.parts])
            if together.dtype == self.parameter.dtype:
                self.parameter.copy_(together)  # where it is: graphs of CUDA know the address
            else:
                self.parameter.data = together

    def show_gradient(self) -> None:
        """Its parts have its gradient."""
        if self.parameter.grad is None:
            return
        gradients = self.parameter.grad.split([len(part) for part in self.parts])
        for part, gradient in zip(self.parts, gradients, strict=True):
            part.grad = gradient


def find_fused_weights(
    model: nn.Module, parameters: Mapping[str, nn.Parameter]
) -> dict[str, FusedWeight]:
    """By name, the parameters of the model's fused layers, over those of `parameters` that are their parts.

    A fused layer says in `parts` how many rows each has, by the name that it has beside it in the stock model.
    """
    found = {}
    for path, module in model.named_modules():
        parts = getattr(module, "parts", None)
        if not isinstance(module, nn.Linear) or not isinstance(parts, dict):
            continue
        beside = path.rpartition(".")[0]
        for kind, own in module.named_parameters():
            names = [f"{beside}.{part}.{kind}".removeprefix(".") for part in parts]
            if set(names) <= parameters.keys():
                found[f"{path}.{kind}"] = FusedWeight(
                    own, tuple(parameters[name] for name in names)
                )
    return found


def names_of_parts(
    fused_weights: Mapping[str, FusedWeight], parameters: Mapping[str, nn.Parameter]
) -> set[str]:
    """The names in `parameters` that stand for parts of fused layers."""
    inside = {id(part) for whole in fused_weights.values() for part in whole.parts}
    return {name for name, parameter in parameters.items() if id(parameter) in inside}
