# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, no-any-return"
# mypy: disable-error-code="no-untyped-call"
"""RMSNorm, rotation and gated product of a decoder in one kernel each, of the best that is there.

On CUDA they are Liger's, where liger-kernel is installed.  Elsewhere, and in what `torch.compile`
compiles, the norm is torch's (`patchgen.parts.norm`), and the others are the parent's statements.
Results are the parent's up to rounding; without Liger's kernels they are its bits in float32.
Nothing is patched at run time.

    class LlamaRMSNorm(FastRMSNorm, llama.LlamaRMSNorm): ...
    class LlamaMLP(FastSwiGLU, llama.LlamaMLP): ...  # FastGeGLU: Gemma's
    class LlamaAttention(FastRotary, llama.LlamaAttention): ...

`FastScaledRMSNorm`, `FastScaledEpsRMSNorm` and `FastOffsetRMSNorm` are for the norms that are named
so in `patchgen.parts.norm`, and `FastChunkedSwiGLU` is for the halves of one product, as in Phi-3.

Liger's kernels compute in float32 and round at the end.  In the backward pass the product of gate
and up overwrites what it has kept, so that a second pass through the same graph (`retain_graph`) is
wrong, as with Liger's own patches; queries and keys are rotated in place, which a hook that keeps
the output of `q_proj` sees.
"""

import torch
from torch import nn
from transformers.activations import GELUTanh, NewGELUActivation, SiLUActivation

from patchgen.edits import Hole, edit, new, old

try:
    from liger_kernel.transformers import functional as liger
except ImportError:
    liger = None


def uses_liger(x):
    is_compiling = torch.compiler.is_compiling()  # which makes kernels itself
    return liger is not None and x.is_cuda and x.dtype != torch.float64 and not is_compiling


class FastRMSNorm:
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        x, eps = hidden_states, self.variance_epsilon
        if uses_liger(x):
            return liger.liger_rms_norm(x, self.weight, eps, in_place=False)
        return self.weight * nn.functional.rms_norm(x, x.shape[-1:], None, eps).to(x.dtype)


class FastScaledRMSNorm:
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        x, eps = hidden_states, self.variance_epsilon
        if uses_liger(x):
            return liger.liger_rms_norm(x, self.weight, eps, casting_mode="gemma", in_place=False)
        weight = self.weight.float()
        return nn.functional.rms_norm(x.float(), weight.shape, weight, eps).to(x.dtype)


class FastScaledEpsRMSNorm:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if uses_liger(x):
            return liger.liger_rms_norm(
                x, self.weight, self.eps, casting_mode="gemma", in_place=False
            )
        weight = self.weight.float()
        return nn.functional.rms_norm(x.float(), weight.shape, weight, self.eps).to(x.dtype)


class FastOffsetRMSNorm:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if uses_liger(x):
            return liger.liger_rms_norm(
                x, self.weight, self.eps, offset=1.0, casting_mode="gemma", in_place=False
            )
        weight = 1.0 + self.weight.float()  # in bfloat16 one plus a small weight is one
        return nn.functional.rms_norm(x.float(), weight.shape, weight, self.eps).to(x.dtype)


class FastSwiGLU:
    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            self.act_fn(gate) * up
        with new:
            gated_by_silu(self.act_fn, gate, up)


class FastChunkedSwiGLU:
    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            up * self.activation_fn(gate)
        with new:
            gated_by_silu(self.activation_fn, gate, up)


def gated_by_silu(act_fn, gate, up):
    if uses_liger(gate) and isinstance(act_fn, (SiLUActivation, nn.SiLU)):
        return liger.liger_swiglu(gate, up)
    return act_fn(gate) * up


class FastGeGLU:
    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            self.act_fn(gate) * up
        with new:
            gated_by_gelu(self.act_fn, gate, up)


def gated_by_gelu(act_fn, gate, up):
    if uses_liger(gate) and isinstance(act_fn, (GELUTanh, NewGELUActivation)):
        return liger.liger_geglu(gate, up)
    return act_fn(gate) * up


class FastRotary:
    # The kernel reads the first half of cosines and sines: the second has to be the same.
    @edit("forward")
    def rotate_in_one_kernel(self, query_states, key_states, cos, sin, rotate: Hole):
        with old:
            query_states, key_states = rotate(query_states, key_states, cos, sin)
        with new:
            apply_rotary = liger.liger_rope if uses_liger(query_states) else rotate
            query_states, key_states = apply_rotary(query_states, key_states, cos, sin)
