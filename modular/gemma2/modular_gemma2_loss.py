"""gemma2 with loss, written by `patchgen new`.

With labels the loss is taken without logits, and `outputs.logits` are computed when something reads them;
`config.loss_chunk_size` sets the tokens in a chunk, 0 takes the parent's loss. See `patchgen.parts.loss`.
"""

from transformers.models.gemma2 import modeling_gemma2 as gemma2

from patchgen.parts.loss import SoftcappedChunkedLoss


class Gemma2ForCausalLM(SoftcappedChunkedLoss, gemma2.Gemma2ForCausalLM):
    pass
