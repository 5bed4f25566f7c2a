"""Norms by one call of torch: RMSNorm in its four forms, and LayerNorm in the dtype of autocast.

A mixin for each form of RMSNorm, named by what happens after the rows are divided by their root mean square; it takes
the place of the parent's forward, and the parent keeps its weight and its epsilon, under the name that it has.

    FusedRMSNorm            cast to the dtype of the input, then times the weight (Llama, Mistral, Qwen)
    FusedScaledRMSNorm      times the weight in float32, then cast (OLMo 2, GPT-OSS)
    FusedScaledEpsRMSNorm   the same, of norms that call their epsilon `eps`
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
and float16; only there the normed rows are kept too.

Not for norms that look alike and are others: with the mean taken away (Cohere), gated (Mamba 2), with a mean square
that is not of the input in float32 (T5).

`LowPrecisionLayerNorm` stands where a model makes an `nn.LayerNorm`; `LowPrecisionNorm`, before a class that makes one
of them, puts it there.  Under autocast its input, its output and what it
keeps are in autocast's dtype and not in float32, and so is the residual stream behind it.  Without autocast it is
`nn.LayerNorm`, and a model whose weights are in bfloat16 gains nothing by it.
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
        # Rounded before it is multiplied.
        return self.weight * nn.functional.rms_norm(
            hidden_states, shape, None, self.variance_epsilon
        ).to(dtype)


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
    """`nn.LayerNorm`, in the dtype of autocast where that is on; a checkpoint of one is one of the other."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        device = input.device.type
        if not torch.is_autocast_enabled(device):
            return super().forward(input)
        dtype = torch.get_autocast_dtype(device)
        weight, bias = (
            None if each is None else each.to(dtype) for each in (self.weight, self.bias)
        )
        with torch.autocast(device, enabled=False):
            return nn.functional.layer_norm(
                input.to(dtype), self.normalized_shape, weight, bias, self.eps
            )


class LowPrecisionNorm:
    @edit("__init__")
    def follow_autocast(self) -> None:
        with old:
            nn.LayerNorm(...)
        with new:
            LowPrecisionLayerNorm(...)
