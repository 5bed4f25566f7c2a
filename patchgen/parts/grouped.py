"""Experts without a loop over experts: tokens are sorted by expert, and one product of torch runs them all.

    pairs = pairs_of(choice_TK, experts)
    inner_PF = grouped_linear(pairs.take(x_TD), up_EFD, None, pairs)
    out_TKD = pairs.back(grouped_linear(act(inner_PF), down_EDF, None, pairs))

Axes: T tokens, K experts of one token, P = T * K pairs of both, E experts, D features, F inner features.

Where torch has no grouped product for these weights (float64, rows that are no multiple of 16 bytes, an old GPU; what
is not bfloat16 under `torch.compile`) a product runs for each expert: `grouped_product`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

# torch 2.10 has it public, 2.8 under a name of its own.
GROUPED_PRODUCT = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
GROUPED_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# On a CPU torch 2.10 wants data to begin at multiples of 16 bytes, which that of a mapped file does not.
ALIGNED_DATA = [int(number) for number in torch.__version__.split(".")[:2]] <= [2, 10]


@dataclass(frozen=True)
class Pairs:
    """The pairs of a token and an expert, sorted by expert."""

    expert_P: Tensor
    order_P: Tensor  # which pair it was, of T * K
    ends_E: Tensor  # where each expert's pairs end.  The last is P: no row of a product is left as torch found it.
    k: int

    def take(self, x_TD: Tensor) -> Tensor:
        """The token of each pair, (P, D)."""
        return x_TD[self.order_P // self.k]

    def back(self, out_PD: Tensor) -> Tensor:
        """Rows of pairs in the order of tokens, (T, K, D)."""
        back_P = torch.empty_like(self.order_P)
        back_P[self.order_P] = torch.arange(len(self.order_P), device=self.order_P.device)
        return out_PD[back_P].view(-1, self.k, out_PD.shape[-1])


def pairs_of(choice_TK: Tensor, experts: int) -> Pairs:
    """For experts that are numbers below `experts`.

    A larger one is of another device, by transformers' convention, and has a weight of zero: it runs as the last.
    """
    expert_P, order_P = choice_TK.clamp(max=experts - 1).reshape(-1).sort(stable=True)
    ends_E = torch.searchsorted(
        expert_P, torch.arange(experts, device=expert_P.device), right=True
    ).int()
    return Pairs(expert_P, order_P, ends_E, choice_TK.shape[-1])


def grouped_linear(
    x_PD: Tensor, weight_EFD: Tensor, bias_EF: Tensor | None, pairs: Pairs
) -> Tensor:
    """`F.linear` of each row by the weight, and bias, of its expert."""
    out_PF = grouped_product(x_PD, weight_EFD.transpose(1, 2), pairs.ends_E)
    return out_PF if bias_EF is None else out_PF + bias_EF[pairs.expert_P].to(out_PF.dtype)


def grouped_product(x_PD: Tensor, weight_EDF: Tensor, ends_E: Tensor) -> Tensor:
    """Rows up to `ends_E[0]` by the first weight, up to `ends_E[1]` by the second, and so on."""
    kind = x_PD.device.type
    if torch.is_autocast_enabled(kind) and x_PD.dtype != torch.float64:
        # As every other product; torch's grouped one is not on autocast's list.
        dtype = torch.get_autocast_dtype(kind)
        x_PD, weight_EDF = x_PD.to(dtype), weight_EDF.to(dtype)
    if GROUPED_PRODUCT is not None and can_group(x_PD, weight_EDF):
        return GROUPED_PRODUCT(x_PD, weight_EDF, offs=ends_E)
    as_one_operation = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    if as_one_operation is not None:  # a loop that a compiler does not look into
        return as_one_operation(x_PD, weight_EDF, ends_E)
    starts = [0, *ends_E.tolist()]
    return torch.cat(
        [
            x_PD[first:last] @ w
            for first, last, w in zip(starts, starts[1:], weight_EDF, strict=False)
        ]
    )


def can_group(x_PD: Tensor, weight_EDF: Tensor) -> bool:
    """Whether torch's grouped product takes these here."""
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
