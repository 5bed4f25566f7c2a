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

from patchgen.parts.grouped import Pairs, grouped_linear

# Features that keep rows at multiples of 16 bytes in every dtype that is grouped.
WIDTH = 8


def stacked(modules: Iterable[nn.Module], name: str) -> Tensor:
    """The parameter `name` of each, (E, ...)."""
    return torch.stack([module.get_parameter(name) for module in modules])


def stacked_linear(x_PD: Tensor, modules: Iterable[nn.Module], name: str, pairs: Pairs) -> Tensor:
    """Each row through the `nn.Linear` called `name` of its expert, which has a bias."""
    experts = list(modules)
    weight_EFD, bias_EF = stacked(experts, f"{name}.weight"), stacked(experts, f"{name}.bias")
    # The bias is the weight of one feature more: added to a narrow product it would be rounded once more than there.
    bias_EFW = nn.functional.pad(bias_EF[..., None], (0, WIDTH - 1))
    one_PW = x_PD.new_zeros(len(x_PD), WIDTH).index_fill(1, torch.zeros(1, dtype=torch.long, device=x_PD.device), 1)
    return grouped_linear(torch.cat([x_PD, one_PW], 1), torch.cat([weight_EFD, bias_EFW], 2), None, pairs)


def too_few(tokens: Tensor, experts: Any) -> bool:
    """Whether there are fewer rows of tokens than experts."""
    return bool(len(tokens) < len(experts))
