"""The precisions of `memory` and `bench`, and what Trainer calls them.

fp32        weights, gradients, states and products in float32
tf32        the same, with products in TF32; CUDA only: `--tf32 true`
amp-bf16    float32 weights, gradients and states, computed in bfloat16 by autocast: `--bf16`
amp-fp16    the same in float16, with a scaled loss: `--fp16`
pure-bf16   weights, gradients and states in bfloat16: `--dtype bfloat16`
"""

from __future__ import annotations

NAMES = ("fp32", "tf32", "amp-bf16", "amp-fp16", "pure-bf16")


def weights_in(precision: str) -> str:
    """Return the name of the dtype of weights, gradients and states."""
    return "bfloat16" if precision == "pure-bf16" else "float32"


def autocast_to(precision: str) -> str:
    """Return the name of the dtype of `torch.autocast`; "" without autocast."""
    return {"amp-bf16": "bfloat16", "amp-fp16": "float16"}.get(precision, "")


def products_in(precision: str) -> str:
    """Return the name of the dtype of matrix products."""
    return autocast_to(precision) or weights_in(precision)
