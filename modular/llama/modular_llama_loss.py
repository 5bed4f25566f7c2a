"""Llama whose loss needs no logits: they exist for one chunk of tokens at a time.

For those who train with long sequences or large batches, where the logits (vocabulary of 128,256: half a megabyte a
token in float32, and as much for their gradient) are the largest tensors of a step.  Works with gradient accumulation,
autocast, LoRA on other layers and FSDP; see `patchgen.parts.loss`.

With labels there are no `outputs.logits`; `config.loss_chunk_size` sets the tokens in a chunk, 0 brings the
logits back.
"""

from patchgen.parts.loss import ChunkedLoss
from transformers.models.llama import modeling_llama as llama


class LlamaForCausalLM(ChunkedLoss, llama.LlamaForCausalLM):
    pass
