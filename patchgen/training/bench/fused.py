"""Fused layers of a variant, over the weights that all entries share.

The weight of such a layer is not a weight of the stock model.  It is filled from its parts whenever
weights are restored, and its gradient is split among them where gradients are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, slots=True)
class FusedWeight:
    """The weight or bias of a fused layer, and the shared parameters that are its rows."""

    parameter: nn.Parameter
    parts: tuple[nn.Parameter, ...]

    def fill(self) -> None:
        """Copy the values of the parts, in their dtype, and drop the gradient."""
        self.parameter.grad = None
        with torch.no_grad():
            together = torch.cat([part.data for part in self.parts])
            if together.dtype == self.parameter.dtype:
                self.parameter.copy_(together)  # in place: CUDA graphs use the address
            else:
                self.parameter.data = together

    def show_gradient(self) -> None:
        """Give each part its rows of the gradient."""
        if self.parameter.grad is None:
            return
        gradients = self.parameter.grad.split([len(part) for part in self.parts])
        for part, gradient in zip(self.parts, gradients, strict=True):
            part.grad = gradient


def find_fused_weights(
    model: nn.Module, parameters: Mapping[str, nn.Parameter]
) -> dict[str, FusedWeight]:
    """Return the parameters of the model's fused layers by name.

    A fused layer has an attribute `parts`: the number of rows of each part, by its name in the
    stock model.
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
    """Return the names in `parameters` that are parts of fused layers."""
    inside = {id(part) for whole in fused_weights.values() for part in whole.parts}
    return {name for name, parameter in parameters.items() if id(parameter) in inside}
