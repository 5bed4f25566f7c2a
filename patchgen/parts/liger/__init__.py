"""Liger's kernels, imported by the file that runs them: nothing is patched at run time.

    LigerRMSNorm and its kin   each RMSNorm is one kernel, by where it casts and what it adds; it
                               leaves the gradient that it is given as it is (`in_place=False`),
                               which a residual or a hook may read too
    LigerSwiGLU, LigerGeGLU    the activation of the gate times the other half, in one kernel
    LigerLoss and its kin      in training with labels the loss is taken without the logits
    LigerRotary                queries and keys are rotated in one kernel

The kernels run on GPUs (in Triton's interpreter, `TRITON_INTERPRET=1`, on a CPU too).  Without
liger-kernel the file is an ImportError with the command that installs it.

What differs from the parent:

- The kernels compute in float32 and round at the end, so bfloat16 differs in the last bits.
- In the backward pass the product of gate and up overwrites what it has kept.  A second backward
  pass through the same graph (`retain_graph=True`) is wrong, as with Liger's own patches.
- Queries and keys are rotated in place.  A hook that keeps the output of `q_proj` sees them
  rotated.
- An activation that the kernel does not compute is a ValueError when the model is built.
- There are no `outputs.logits` in training with labels, but an object in their place.  The parent's
  statements run, and give logits, in evaluation, without labels, with `logits_to_keep` that keeps
  less than everything, and where the user has set a `loss_function` or a hook on the head.
- The loss reads the weight of the head.  A head that is more than a plain linear layer is a
  ValueError, because what it adds would not learn: an adapter of LoRA on `lm_head`, and a head that
  is quantized, sharded or wrapped.
"""

from patchgen.parts.liger.gates import LigerChunkedSwiGLU, LigerGeGLU, LigerSwiGLU
from patchgen.parts.liger.losses import (
    LigerAlwaysCappedLoss,
    LigerDividedLoss,
    LigerLoss,
    LigerScaledCappedLoss,
    LigerScaledLoss,
    LigerSoftcappedLoss,
)
from patchgen.parts.liger.norms import (
    LigerOffsetRMSNorm,
    LigerRMSNorm,
    LigerScaledEpsRMSNorm,
    LigerScaledRMSNorm,
)
from patchgen.parts.liger.rotary import LigerRotary

__all__ = [
    "LigerAlwaysCappedLoss",
    "LigerChunkedSwiGLU",
    "LigerDividedLoss",
    "LigerGeGLU",
    "LigerLoss",
    "LigerOffsetRMSNorm",
    "LigerRMSNorm",
    "LigerRotary",
    "LigerScaledCappedLoss",
    "LigerScaledEpsRMSNorm",
    "LigerScaledLoss",
    "LigerScaledRMSNorm",
    "LigerSoftcappedLoss",
    "LigerSwiGLU",
]
