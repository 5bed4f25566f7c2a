# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, no-any-return"
# mypy: disable-error-code="no-untyped-call"
"""RMSNorm, rotation and gated product in one kernel each, of the best that is there."""

import torch
from torch import nn

from patchgen.edits import Hole, edit, new, old

try:
    from liger_kernel.transformers import functional as liger
except ImportError:
    liger = None


def has_kernel(x):
    return liger is not None and x.is_cuda and x.dtype != torch.float64


class FastRMSNorm:
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        x, eps = hidden_states, self.variance_epsilon
        if has_kernel(x):
            return liger.liger_rms_norm(x, self.weight, eps, in_place=False)
        return self.weight * nn.functional.rms_norm(x, x.shape[-1:], None, eps).to(x.dtype)


class FastSwiGLU:
    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            self.act_fn(gate) * up
        with new:
            gated(self, gate, up)


def gated(mlp, gate, up):
    if not has_kernel(gate) or mlp.config.hidden_act not in ("silu", "swish"):
        return mlp.act_fn(gate) * up
    return liger.liger_swiglu(gate, up)


class FastRotary:
    @edit("forward")
    def rotate_in_one_kernel(self, query_states, key_states, cos, sin, rotate: Hole):
        with old:
            query_states, key_states = rotate(query_states, key_states, cos, sin)
        with new:
            turn = liger.liger_rope if has_kernel(query_states) else rotate
            query_states, key_states = turn(query_states, key_states, cos, sin)
