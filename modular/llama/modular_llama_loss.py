"""llama with loss, written by `patchgen new`.

With labels the loss is taken without logits, and `outputs.logits` are computed when something reads them;
`config.loss_chunk_size` sets the tokens in a chunk, 0 takes the parent's loss. See `patchgen.parts.loss`.
"""

from transformers.models.llama import modeling_llama as llama

from patchgen.parts.loss import ChunkedLoss


class LlamaForCausalLM(ChunkedLoss, llama.LlamaForCausalLM):
    pass
