"""Grouped GEMM: tokens are sorted by expert, and one matrix product of torch runs all experts.

    pairs = sort_pairs(choice_TK, experts)
    inner_PF = grouped_linear(pairs.permute(x_TD), up_EFD, pairs)
    out_TKD = pairs.unpermute(grouped_linear(act(inner_PF), down_EDF, pairs))

Axes: T tokens, K experts of one token, P = T * K pairs of both, E experts, D features, F inner
features.

Where torch has no grouped GEMM for the weights, `grouped_gemm` runs one product for each expert:
in float64, for rows that are no multiple of 16 bytes, on an old GPU, and under `torch.compile` in
every dtype but bfloat16.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

# torch 2.10 has it public, 2.8 under a private name.
GROUPED_MM = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
GROUPED_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# On a CPU, torch 2.10 needs data that begins at a multiple of 16 bytes; a mapped file's may not.
ALIGNED_DATA = [int(number) for number in torch.__version__.split(".")[:2]] <= [2, 10]


@dataclass(frozen=True)
class Pairs:
    """The pairs of a token and an expert, sorted by expert."""

    expert_P: Tensor
    order_P: Tensor  # the place of each pair among T * K
    # Where the pairs of each expert end.  The last is P, so that every row of a product is written.
    ends_E: Tensor
    k: int

    def permute(self, x_TD: Tensor) -> Tensor:
        """The token of each pair, (P, D)."""
        return x_TD[self.order_P // self.k]

    def unpermute(self, out_PD: Tensor) -> Tensor:
        """The rows of pairs in the order of tokens, (T, K, D)."""
        place_P = torch.empty_like(self.order_P)
        place_P[self.order_P] = torch.arange(len(self.order_P), device=self.order_P.device)
        return out_PD[place_P].view(-1, self.k, out_PD.shape[-1])


def sort_pairs(choice_TK: Tensor, experts: int) -> Pairs:
    """The pairs of a choice of experts, which are numbers below `experts`.

    In expert parallelism, transformers gives an expert of another process a larger number and the
    weight zero.  Such a pair runs on the last expert.
    """
    expert_P, order_P = choice_TK.clamp(max=experts - 1).reshape(-1).sort(stable=True)
    numbers_E = torch.arange(experts, device=expert_P.device)
    ends_E = torch.searchsorted(expert_P, numbers_E, right=True).int()
    return Pairs(expert_P, order_P, ends_E, choice_TK.shape[-1])


def grouped_linear(x_PD: Tensor, weight_EFD: Tensor, pairs: Pairs) -> Tensor:
    """`F.linear` of each row by the weight of its expert."""
    return grouped_gemm(x_PD, weight_EFD.transpose(1, 2), pairs.ends_E)


def grouped_gemm(x_PD: Tensor, weight_EDF: Tensor, ends_E: Tensor) -> Tensor:
    """Rows up to `ends_E[0]` by the first weight, up to `ends_E[1]` by the second, and so on."""
    device = x_PD.device.type
    if torch.is_autocast_enabled(device) and x_PD.dtype != torch.float64:
        # Autocast does not know torch's grouped GEMM.
        dtype = torch.get_autocast_dtype(device)
        x_PD = x_PD.to(dtype)
        weight_EDF = weight_EDF.to(dtype)
    if GROUPED_MM is not None and can_group(x_PD, weight_EDF):
        return GROUPED_MM(x_PD, weight_EDF, offs=ends_E)
    fallback = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    if fallback is not None:  # an operator, so that a compiler does not trace the loop
        return fallback(x_PD, weight_EDF, ends_E)
    starts = [0, *ends_E.tolist()]
    groups = zip(itertools.pairwise(starts), weight_EDF, strict=True)
    products = [x_PD[first:last] @ weight for (first, last), weight in groups]
    return torch.cat(products)


def grouped_outer(out_PF: Tensor, x_PD: Tensor, weight_EFD: Tensor, ends_E: Tensor) -> Tensor:
    """The gradient of `weight_EFD`: for each expert, the sum of its rows' outer products."""
    if GROUPED_MM is not None and can_group(x_PD, weight_EFD):
        return GROUPED_MM(out_PF.t(), x_PD, offs=ends_E)
    groups = itertools.pairwise([0, *ends_E.tolist()])
    return torch.stack([out_PF[first:last].t() @ x_PD[first:last] for first, last in groups])


def can_group(x_PD: Tensor, weight_EDF: Tensor) -> bool:
    """Whether torch's grouped GEMM takes these tensors here."""
    if x_PD.dtype != weight_EDF.dtype or x_PD.dtype not in GROUPED_DTYPES:
        return False
    # Rows begin at multiples of 16 bytes, in the backward pass too.
    if any(size * x_PD.element_size() % 16 for size in weight_EDF.shape[1:]):
        return False
    if torch.compiler.is_compiling():
        return x_PD.dtype == torch.bfloat16
    if x_PD.is_cuda:
        return hasattr(F, "grouped_mm") and torch.cuda.get_device_capability(x_PD.device) >= (8, 0)
    if x_PD.device.type == "cpu":
        aligned = not (x_PD.data_ptr() % 16 or weight_EDF.data_ptr() % 16)
        return hasattr(F, "grouped_mm") and (aligned or not ALIGNED_DATA)
    return True
