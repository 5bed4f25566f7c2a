"""Qwen3 with all that makes training it cheaper: no logits, texts in one row, and a kernel for each norm.

For those who train it, whole or with LoRA.  It is `patchgen.parts.loss` and `patchgen.parts.fast`:

- with labels no logits are computed, in chunks of tokens whose inner step is compiled (`config.loss_chunk_size`);
- texts of one row stay apart, in attention and in the loss, where `position_ids` begin anew: under FlashAttention and
  "varlen" (`import patchgen.runtime`) by their lengths, under any other attention by transformers' mask;
- RMSNorm, rotation and gated product are Liger's kernels on CUDA, if liger-kernel is installed.

`patchgen.runtime.checkpointing` has policies for activation checkpointing.

Written by hand: it shows parts of one model together.
"""

from transformers.models.qwen3 import modeling_qwen3 as qwen3

from patchgen.parts.fast import FastRMSNorm, FastRotary, FastSwiGLU, LabelsWithinTexts, PacksByPosition
from patchgen.parts.loss import ChunkedLoss


class Qwen3RMSNorm(FastRMSNorm, qwen3.Qwen3RMSNorm):
    pass


class Qwen3MLP(FastSwiGLU, qwen3.Qwen3MLP):
    pass


class Qwen3Attention(FastRotary, qwen3.Qwen3Attention):
    pass


class Qwen3Model(PacksByPosition, qwen3.Qwen3Model):
    pass


class Qwen3ForCausalLM(LabelsWithinTexts, ChunkedLoss, qwen3.Qwen3ForCausalLM):
    pass
