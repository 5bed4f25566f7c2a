# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, no-any-return"
"""RMSNorm, rotation and gated product of a decoder in one kernel each, of the best that is there.

On CUDA they are Liger's, where liger-kernel is installed.  Elsewhere the norm is torch's
(`patchgen.parts.norm`), and the others are the parent's statements.  Results are the parent's up to
rounding; with torch's they are its bits in float32.  Nothing is patched at run time.

    class LlamaRMSNorm(FastRMSNorm, llama.LlamaRMSNorm): ...
    class LlamaMLP(FastSwiGLU, llama.LlamaMLP): ...
    class LlamaAttention(FastRotary, llama.LlamaAttention): ...

What Liger's kernels change: see `patchgen.parts.liger`.
"""

import torch
from torch import nn

from patchgen.edits import Hole, edit, new, old

try:
    from liger_kernel.transformers import functional as liger
except ImportError:
    liger = None


class FastRMSNorm:
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        x, norm = hidden_states, nn.functional.rms_norm
        if liger is not None and x.is_cuda:
            return liger.liger_rms_norm(x, self.weight, self.variance_epsilon, in_place=False)
        return self.weight * norm(x, x.shape[-1:], None, self.variance_epsilon).to(x.dtype)


class FastSwiGLU:
    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            self.act_fn(gate) * up
        with new:
            gated(self, gate, up)


def gated(mlp, gate, up):
    if liger is None or not gate.is_cuda or mlp.config.hidden_act not in ("silu", "swish"):
        return mlp.act_fn(gate) * up
    return liger.liger_swiglu(gate, up)


class FastRotary:
    @edit("forward")
    def rotate_in_one_kernel(self, query_states, key_states, cos, sin, rotate: Hole):
        with old:
            query_states, key_states = rotate(query_states, key_states, cos, sin)
        with new:
            turn = liger.liger_rope if liger is not None and query_states.is_cuda else rotate
            query_states, key_states = turn(query_states, key_states, cos, sin)
