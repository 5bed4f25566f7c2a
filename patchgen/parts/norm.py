"""Norms by one call of torch: RMSNorm in its four forms, and LayerNorm in the dtype of autocast.

A mixin for each form of RMSNorm, named by what happens after the rows are divided by their root mean square; it takes
the place of the parent's forward, and the parent keeps its weight and its epsilon.

    FusedRMSNorm            cast to the dtype of the input, then times the weight (Llama, Mistral, Qwen)
    FusedScaledRMSNorm      times the weight in float32, then cast (OLMo 2, GPT-OSS)
    FusedOffsetRMSNorm      times one plus the weight in float32, then cast (Gemma)
    FusedUnweightedRMSNorm  cast (Llama 4's norm of queries and keys)

    class LlamaRMSNorm(FusedRMSNorm, llama.LlamaRMSNorm): ...

On CUDA `rms_norm` is one kernel, which keeps its input and a number per row for the backward pass; elsewhere torch
composes it of the operations that the parent writes out.

**Rounding.**  Every form rounds where its parent does: nothing is left out and nothing is added.  On CPU, where the
operations are the same, results are the parent's bit for bit in every dtype.  The kernel of CUDA sums in another
order, so that a value on the edge between two of a narrow dtype may fall to the other side.  In a float64
model the parents go through float32; these stay in float64, but for the one with the added one.

`FusedRMSNorm` multiplies by the weight in a kernel of its own where the parent rounds before it, which is in bfloat16
and float16; only there the normed rows are kept too.  `RoundedOnceRMSNorm` does both in the one kernel: it keeps less
and is quicker, and its result is the parent's before that rounding, rounded once.

Not for norms that look alike and are others: with the mean taken away (Cohere), gated (Mamba 2), with a mean square
that is not of the input in float32 (T5).

`LowPrecisionLayerNorm` stands where a model makes an `nn.LayerNorm`; `LowPrecisionNorm`, before a class that makes one
of them, puts it there.  Under autocast its input, its output and what it
keeps are in autocast's dtype and not in float32, and so is the residual stream behind it.  Without autocast it is
`nn.LayerNorm`, and a model whose weights are in bfloat16 gains nothing by it.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchgen.edits import edit, new, old

# Axes: B rows, L tokens, D features, the last one whatever stands before it.


def rms_norm(x_BLD: Tensor, weight_D: Tensor | None, eps: float) -> Tensor:
    """`x / sqrt(mean(x * x) + eps) * weight` over the last axis, computed in at least float32, in the dtype of `x`.

    `weight` is of that dtype, or None: with another one torch would leave its kernel.
    """
    return F.rms_norm(x_BLD, x_BLD.shape[-1:], weight_D, eps).to(x_BLD.dtype)


def epsilon_of(norm: Any) -> float:
    """What the norm adds to the mean square, which models call by two names."""
    return float(norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps)


class FusedRMSNorm:
    """RMSNorm by one call: rows are cast to the dtype of the input, then multiplied by the weight."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        if self.weight.dtype == hidden_states.dtype and hidden_states.dtype in (torch.float32, torch.float64):
            # The parent's cast does nothing here.
            return rms_norm(hidden_states, self.weight, epsilon_of(self))
        return self.weight * rms_norm(hidden_states, None, epsilon_of(self))


class RoundedOnceRMSNorm:
    """RMSNorm by one call, of a parent that casts before it multiplies by the weight: this one casts once, after."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        if self.weight.dtype == hidden_states.dtype:
            return rms_norm(hidden_states, self.weight, epsilon_of(self))
        # What is returned has the dtype of both together, as the parent's.
        return self.weight * rms_norm(hidden_states, None, epsilon_of(self))


class FusedScaledRMSNorm:
    """RMSNorm by one call: rows are multiplied by the weight, then cast to the dtype of the input."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        if self.weight.dtype == hidden_states.dtype:
            return rms_norm(hidden_states, self.weight, epsilon_of(self))
        return rms_norm(hidden_states.float(), self.weight.float(), epsilon_of(self)).to(hidden_states.dtype)


class FusedOffsetRMSNorm:
    """RMSNorm by one call: rows are multiplied by one plus the weight, then cast to the dtype of the input."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        # In bfloat16 one plus a small weight is one: the sum is made in float32, and so is the norm.
        weight = 1.0 + self.weight.float()
        return rms_norm(hidden_states.float(), weight, epsilon_of(self)).to(hidden_states.dtype)


class FusedUnweightedRMSNorm:
    """RMSNorm by one call, without a weight."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return rms_norm(hidden_states, None, epsilon_of(self))


class LowPrecisionLayerNorm(nn.LayerNorm):
    """`nn.LayerNorm`, in the dtype of autocast where that is on; a checkpoint of one is one of the other."""

    def forward(self, input: Tensor) -> Tensor:
        device = input.device.type
        if not torch.is_autocast_enabled(device):
            return super().forward(input)
        dtype = torch.get_autocast_dtype(device)
        weight, bias = (None if each is None else each.to(dtype) for each in (self.weight, self.bias))
        with torch.autocast(device, enabled=False):
            return F.layer_norm(input.to(dtype), self.normalized_shape, weight, bias, self.eps)


class LowPrecisionNorm:
    @edit("__init__")
    def follow_autocast(self) -> None:
        with old:
            nn.LayerNorm(...)
        with new:
            LowPrecisionLayerNorm(...)
