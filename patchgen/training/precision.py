"""The precisions of `train`, `memory` and `bench`.  Each name means the same in all of them.

fp32        weights, gradients, states and products in float32
tf32        the same, with products in TF32; CUDA only
amp-bf16    weights, gradients and states in float32; `torch.autocast` computes in bfloat16
amp-fp16    the same in float16, with a scaled loss
pure-bf16   weights, gradients and states in bfloat16
fsdp-mixed  float32 weights that FSDP2 gathers in bfloat16; gradients are summed in float32
"""

from __future__ import annotations

NAMES = ("fp32", "tf32", "amp-bf16", "amp-fp16", "pure-bf16", "fsdp-mixed")
# The values of `accelerate launch --mixed_precision`.
ACCELERATE = {"bf16": "amp-bf16", "fp16": "amp-fp16"}


def weights_in(precision: str) -> str:
    """Return the name of the dtype of weights, gradients and states."""
    return "bfloat16" if precision == "pure-bf16" else "float32"


def autocast_to(precision: str) -> str:
    """Return the name of the dtype of `torch.autocast`; "" without autocast."""
    return {"amp-bf16": "bfloat16", "amp-fp16": "float16"}.get(precision, "")


def products_in(precision: str) -> str:
    """Return the name of the dtype of matrix products."""
    return (
        "bfloat16" if precision == "fsdp-mixed" else autocast_to(precision) or weights_in(precision)
    )
