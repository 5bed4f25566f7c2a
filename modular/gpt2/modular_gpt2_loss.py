"""GPT-2 whose loss needs no logits: they exist for one chunk of tokens at a time.

For those who train it with large batches: GPT-2's vocabulary is 65 times as wide as its smallest model, so logits
outweigh every other tensor of a step.  See `patchgen.parts.loss`.  `GPT2DoubleHeadsModel` is as it was.

With labels there are no `outputs.logits`; `config.loss_chunk_size` sets the tokens in a chunk, 0 brings the
logits back.
"""

from patchgen.parts.loss import ChunkedLoss
from transformers.models.gpt2 import modeling_gpt2 as gpt2


class GPT2LMHeadModel(ChunkedLoss, gpt2.GPT2LMHeadModel):
    pass
