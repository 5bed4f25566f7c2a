"""gpt2 with loss, written by `patchgen new`.

With labels the loss is taken without logits, and `outputs.logits` are computed when something reads them;
`config.loss_chunk_size` sets the tokens in a chunk, 0 takes the parent's loss. See `patchgen.parts.loss`.

What stays as it was:

- transformers/models/gpt2/modeling_gpt2.py:822:23: GPT2DoubleHeadsModel: takes its loss in statements that the part does not know
- transformers/models/gpt2/modeling_gpt2.py:829:23: GPT2DoubleHeadsModel: takes its loss in statements that the part does not know
"""

from transformers.models.gpt2 import modeling_gpt2 as gpt2

from patchgen.parts.loss import ChunkedLoss


class GPT2LMHeadModel(ChunkedLoss, gpt2.GPT2LMHeadModel):
    pass
