"""Llama with all that makes training it cheaper: no logits, texts in one row, and a kernel for each norm.

For those who train it, whole or with LoRA.  It is `patchgen.parts.loss` and `patchgen.parts.fast`:

- with labels no logits are computed, in chunks of tokens whose inner step is compiled (`config.loss_chunk_size`);
- texts of one row stay apart, in attention and in the loss, where `position_ids` begin anew: under FlashAttention and
  "varlen" (`import patchgen.runtime`) by their lengths, under any other attention by transformers' mask;
- RMSNorm, rotation and gated product are Liger's kernels on CUDA, if liger-kernel is installed.

`patchgen.runtime.checkpointing` has policies for activation checkpointing.

Written by hand: it shows parts of one model together.
"""

from transformers.models.llama import modeling_llama as llama

from patchgen.parts.fast import FastRMSNorm, FastRotary, FastSwiGLU, LabelsWithinTexts, PacksByPosition
from patchgen.parts.loss import ChunkedLoss


class LlamaRMSNorm(FastRMSNorm, llama.LlamaRMSNorm):
    pass


class LlamaMLP(FastSwiGLU, llama.LlamaMLP):
    pass


class LlamaAttention(FastRotary, llama.LlamaAttention):
    pass


class LlamaModel(PacksByPosition, llama.LlamaModel):
    pass


class LlamaForCausalLM(LabelsWithinTexts, ChunkedLoss, llama.LlamaForCausalLM):
    pass
