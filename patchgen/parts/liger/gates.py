# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""The activation of the gate times the other half, in one kernel."""

from transformers.activations import ACT2FN

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.liger.kernels import liger


def known_activation(name: str, *known: str) -> str:
    """`name`; a ValueError if the kernel, which computes the `known` ones, does not compute it."""
    if name not in known:
        raise ValueError(f"Liger's kernel computes {' or '.join(known)}, and not {name}")
    return name


class ComputesSiLU:
    @edit("__init__")
    def require_silu(self, name: Hole):
        with old:
            ACT2FN[name]
        with new:
            ACT2FN[known_activation(name, "silu", "swish")]


class LigerSwiGLU(ComputesSiLU):
    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            self.act_fn(gate) * up
        with new:
            liger.liger_swiglu(gate, up)


class LigerChunkedSwiGLU(ComputesSiLU):
    # The halves of one product, as in Phi-3.
    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            up * self.activation_fn(gate)
        with new:
            liger.liger_swiglu(gate, up)


class LigerGeGLU:
    @edit("__init__")
    def require_gelu_by_tanh(self, name: Hole):
        with old:
            ACT2FN[name]
        with new:
            ACT2FN[known_activation(name, "gelu_pytorch_tanh", "gelu_new")]

    @edit("forward")
    def multiply_in_one_kernel(self, gate: Hole, up: Hole):
        with old:
            self.act_fn(gate) * up
        with new:
            liger.liger_geglu(gate, up)
