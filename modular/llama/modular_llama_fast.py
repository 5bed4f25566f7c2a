"""llama with loss, flash and kernels, written by `patchgen new`.

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

- sdpa: llama calls transformers' attention interface and takes SDPA already; a function of your own takes its place
  by `AttentionInterface.register("mine", mine)` and `attn_implementation="mine"`
"""

from transformers.models.llama import modeling_llama as llama

from patchgen.parts.flash import KeepsPadding, LabelsWithinTexts, PaddingFreeDecoder
from patchgen.parts.kernels import FastRMSNorm, FastRotary, FastSwiGLU
from patchgen.parts.loss import ChunkedLoss


class LlamaRMSNorm(FastRMSNorm, llama.LlamaRMSNorm):
    pass


class LlamaMLP(FastSwiGLU, llama.LlamaMLP):
    pass


class LlamaAttention(FastRotary, llama.LlamaAttention):
    pass


class LlamaModel(PaddingFreeDecoder, llama.LlamaModel):
    pass


class LlamaForCausalLM(ChunkedLoss, LabelsWithinTexts, llama.LlamaForCausalLM):
    pass


class LlamaForQuestionAnswering(KeepsPadding, llama.LlamaForQuestionAnswering):
    pass
