"""Weights that make errors visible.

With transformers' own initialization attention is almost uniform: scores deviate by a hundredth,
and even a doubled scale disappears in rounding.  With these weights scores deviate by more than
one, norm weights are not one, and biases are not zero.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

# The deviation of a matrix's output for an input of deviation one.  A score is a product of two
# outputs, so it deviates by the square.
GAIN = 1.3


@torch.no_grad()
def draw_weights(model: nn.Module, seed: int = 0) -> None:
    """Set every parameter of `model`: the same values in every model with the same names.

    Drawn in float64 in the order of the names, and rounded to the parameter's dtype.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        owner = model.get_submodule(name.rpartition(".")[0])
        normal = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(_scaled(normal, owner, is_bias=name.endswith("bias")))


def _scaled(normal: torch.Tensor, owner: nn.Module, *, is_bias: bool) -> torch.Tensor:
    if is_bias:
        return 0.3 * normal
    is_scale = normal.shape[-1:] == (1,) and not isinstance(
        owner, nn.Linear | nn.modules.conv._ConvNd | nn.Embedding
    )
    if normal.dim() <= 1 or is_scale:  # the weight of a norm, or a scale: around one, and positive
        return 1 + 0.3 * normal.clamp(-3, 3)
    if isinstance(owner, nn.Embedding):
        return normal
    return GAIN * _inputs(normal.shape, owner) ** -0.5 * normal


def _inputs(shape: torch.Size, owner: nn.Module) -> int:
    """How many values add up to one of a matrix's output."""
    if isinstance(owner, Conv1D | nn.modules.conv._ConvTransposeNd):
        return shape[0]
    if isinstance(owner, nn.modules.conv._ConvNd):
        return shape[
            1:
        ].numel()  # else every layer of a convolutional network is larger than the one before
    return shape[-1]
