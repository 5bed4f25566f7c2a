"""roberta with loss, written by `patchgen new`.

With labels the loss is taken without logits, and `outputs.logits` are computed when something reads them;
`config.loss_chunk_size` sets the tokens in a chunk, 0 takes the parent's loss. See `patchgen.parts.loss`.

What stays as it was:

- transformers/models/roberta/modeling_roberta.py:778:20: RobertaForCausalLM: `self.lm_head`, which makes its logits, is no linear layer
"""

from transformers.models.roberta import modeling_roberta as roberta

from patchgen.parts.loss import LabelledTokens


class RobertaForMaskedLM(LabelledTokens, roberta.RobertaForMaskedLM):
    pass
