"""RMSNorm, rotation and gated product of a decoder in one kernel each, of the best that is there.

On CUDA they are Liger's, where liger-kernel is installed.  Elsewhere the norm is torch's
(`patchgen.parts.norm`), and the others are the parent's statements.  Results are the parent's up to
rounding; with torch's they are its bits in float32.  Nothing is patched at run time.

    class LlamaRMSNorm(FastRMSNorm, llama.LlamaRMSNorm): ...
    class LlamaMLP(FastSwiGLU, llama.LlamaMLP): ...
    class LlamaAttention(FastRotary, llama.LlamaAttention): ...
    class LlamaModel(PacksByPosition, llama.LlamaModel): ...
    class LlamaForCausalLM(LabelsWithinTexts, llama.LlamaForCausalLM): ...

Texts of one row stay apart where `position_ids` begin anew, in attention and in the loss: under
FlashAttention and "varlen" by their lengths, elsewhere by transformers' mask.  Padding is computed;
`patchgen.parts.flash` leaves it out.

What Liger's kernels change: see `patchgen.parts.liger`.
"""

from patchgen.parts.fast.kernels import FastRMSNorm, FastRotary, FastSwiGLU
from patchgen.parts.fast.packed import LabelsWithinTexts, PacksByPosition

__all__ = [
    "FastRMSNorm",
    "FastRotary",
    "FastSwiGLU",
    "LabelsWithinTexts",
    "PacksByPosition",
]
