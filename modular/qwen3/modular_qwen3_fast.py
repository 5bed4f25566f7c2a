"""qwen3 with loss, flash and kernels, written by `patchgen new`.

With labels the loss is taken without logits, and `outputs.logits` are computed when something reads them;
`config.loss_chunk_size` sets the tokens in a chunk, 0 takes the parent's loss. See `patchgen.parts.loss`.

No padding is computed where attention takes the lengths of texts: under FlashAttention and under "varlen", which
`import patchgen.runtime` registers. Real tokens are taken out of the batch once, and put back after the last layer.
Texts of one row stay apart, in attention and in the loss, where `position_ids` restart, or by the collator's
`cu_seq_lens_q`. What comes out at real tokens is the parent's own; at padding it is zeros. See
`patchgen.parts.flash`.

RMSNorm, rotation and gated product are a kernel each on CUDA: Liger's, where liger-kernel is installed, and else
torch's norm. See `patchgen.parts.kernels`.

What is not written:

- sdpa: qwen3 calls transformers' attention interface and takes SDPA already; a function of your own takes its place
  by `AttentionInterface.register("mine", mine)` and `attn_implementation="mine"`
"""

from transformers.models.qwen3 import modeling_qwen3 as qwen3

from patchgen.parts.flash import KeepsPadding, LabelsWithinTexts, PaddingFreeLayerTypesDecoder
from patchgen.parts.kernels import FastRMSNorm, FastRotary, FastSwiGLU
from patchgen.parts.loss import ChunkedLoss


class Qwen3RMSNorm(FastRMSNorm, qwen3.Qwen3RMSNorm):
    pass


class Qwen3MLP(FastSwiGLU, qwen3.Qwen3MLP):
    pass


class Qwen3Attention(FastRotary, qwen3.Qwen3Attention):
    pass


class Qwen3Model(PaddingFreeLayerTypesDecoder, qwen3.Qwen3Model):
    pass


class Qwen3ForCausalLM(ChunkedLoss, LabelsWithinTexts, qwen3.Qwen3ForCausalLM):
    pass


class Qwen3ForQuestionAnswering(KeepsPadding, qwen3.Qwen3ForQuestionAnswering):
    pass
