"""Norms by one call of torch: RMSNorm in its five forms, and LayerNorm in the dtype of autocast.

There is a mixin for each form of RMSNorm, named by what happens after the rows are divided by their
root mean square.  It replaces the parent's forward; the parent keeps its weight and its epsilon,
under the name that it has.

    FusedRMSNorm            cast to the dtype of the input, then times the weight (Llama, Qwen)
    FusedScaledRMSNorm      times the weight in float32, then cast (OLMo 2, GPT-OSS)
    FusedScaledEpsRMSNorm   the same, of norms that call their epsilon `eps`
    FusedOffsetRMSNorm      times one plus the weight in float32, then cast (Gemma)
    FusedUnweightedRMSNorm  cast (Llama 4's norm of queries and keys)

    class LlamaRMSNorm(FusedRMSNorm, llama.LlamaRMSNorm): ...

On CUDA `rms_norm` is one kernel, which keeps its input and one number a row for the backward pass;
elsewhere torch composes it of the operations that the parent writes out.

**Rounding.**  Every form rounds where its parent does.  On CPU, where the operations are the same,
results are the parent's bit for bit in every dtype.  The kernel of CUDA sums in another order, so
that a value halfway between two numbers of a narrow dtype may be rounded the other way.  In a
float64 model the parents go through float32; these stay in float64, except `FusedOffsetRMSNorm`.

`FusedRMSNorm` multiplies by the weight in a kernel of its own where the parent rounds before it,
which is in bfloat16 and float16; only there the normed rows are kept too.

Norms that only look alike are not supported: those that subtract the mean (Cohere), are gated
(Mamba 2), or have a mean square that is not of the input in float32 (T5).

`LowPrecisionLayerNorm` replaces an `nn.LayerNorm`; `LowPrecisionNorm` goes before a class that
makes one, and replaces it there.  Under autocast its input, its output and what it keeps are in the
dtype of autocast and not in float32, and so is the residual stream after it.  Without autocast it
is `nn.LayerNorm`, and a model whose weights are in bfloat16 gains nothing by it.
"""

# What mixins read is the parent's.
# mypy: disable-error-code="attr-defined, no-any-return"

import torch
from torch import nn

from patchgen.edits import edit, new, old


class FusedRMSNorm:
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        shape, dtype = hidden_states.shape[-1:], hidden_states.dtype
        if dtype == self.weight.dtype == torch.float32:
            return nn.functional.rms_norm(hidden_states, shape, self.weight, self.variance_epsilon)
        normed = nn.functional.rms_norm(hidden_states, shape, None, self.variance_epsilon)
        return self.weight * normed.to(dtype)  # rounded before it is multiplied


class FusedScaledRMSNorm:
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        x, weight, dtype = hidden_states, self.weight, hidden_states.dtype
        if weight.dtype != dtype:  # torch would leave its kernel
            x, weight = x.float(), weight.float()
        return nn.functional.rms_norm(x, weight.shape, weight, self.variance_epsilon).to(dtype)


class FusedScaledEpsRMSNorm:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, dtype = self.weight, x.dtype
        if weight.dtype != dtype:  # torch would leave its kernel
            x, weight = x.float(), weight.float()
        return nn.functional.rms_norm(x, weight.shape, weight, self.eps).to(dtype)


class FusedOffsetRMSNorm:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # In bfloat16 one plus a small weight is one.
        weight = 1.0 + self.weight.float()
        return nn.functional.rms_norm(x.float(), weight.shape, weight, self.eps).to(x.dtype)


class FusedUnweightedRMSNorm:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.rms_norm(x, x.shape[-1:], None, self.eps).to(x.dtype)


class LowPrecisionLayerNorm(nn.LayerNorm):
    """`nn.LayerNorm`, computed in the dtype of autocast where that is on."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        device = input.device.type
        if not torch.is_autocast_enabled(device):
            return super().forward(input)
        dtype = torch.get_autocast_dtype(device)
        weight = None if self.weight is None else self.weight.to(dtype)
        bias = None if self.bias is None else self.bias.to(dtype)
        shape, input = self.normalized_shape, input.to(dtype)
        with torch.autocast(device, enabled=False):
            return nn.functional.layer_norm(input, shape, weight, bias, self.eps)


class LowPrecisionNorm:
    @edit("__init__")
    def follow_autocast(self) -> None:
        with old:
            nn.LayerNorm(...)
        with new:
            LowPrecisionLayerNorm(...)
