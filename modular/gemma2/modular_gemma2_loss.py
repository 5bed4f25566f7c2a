"""Gemma 2 whose loss needs no logits: they exist, soft-capped, for one chunk of tokens at a time.

For those who train it: with a vocabulary of 256,000 the logits and their gradient take two megabytes a token in
float32, more than all layers together under gradient checkpointing.  See `patchgen.parts.loss`.

With labels there are no `outputs.logits`; `config.loss_chunk_size` sets the tokens in a chunk, 0 brings the
logits back.
"""

from patchgen.parts.loss import SoftcappedChunkedLoss
from transformers.models.gemma2 import modeling_gemma2 as gemma2


class Gemma2ForCausalLM(SoftcappedChunkedLoss, gemma2.Gemma2ForCausalLM):
    pass
