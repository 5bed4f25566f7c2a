"""Experts that are modules of their own, run together by `patchgen.parts.grouped`.

Parameters, checkpoints and adapters stay what they are; the weights are stacked for each forward pass, which copies
them once.  With fewer tokens than experts that would cost more than it saves: `too_few` says so, and the parent's loop
runs, which reads the weights of the chosen experts alone.

An expert that no token chose gets a gradient of zeros, where a loop gives it none.  Dropout inside the experts is
drawn for all of them at once, and not expert by expert.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def stacked(modules: Iterable[nn.Module], name: str) -> Tensor:
    """The parameter `name` of each, (E, ...)."""
    return torch.stack([module.get_parameter(name) for module in modules])


def too_few(tokens: Tensor, experts: Any) -> bool:
    """Whether there are fewer rows of tokens than experts."""
    return bool(len(tokens) < len(experts))
