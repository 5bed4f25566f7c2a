"""bert with loss, written by `patchgen new`.

With labels the loss is taken without logits, and `outputs.logits` are computed when something reads them;
`config.loss_chunk_size` sets the tokens in a chunk, 0 takes the parent's loss. See `patchgen.parts.loss`.

What stays as it was:

- transformers/models/bert/modeling_bert.py:806:30: BertForPreTraining: takes its loss in statements that the part does not know
- transformers/models/bert/modeling_bert.py:895:20: BertLMHeadModel: `self.cls`, which makes its logits, is no linear layer
"""

from transformers.models.bert import modeling_bert as bert

from patchgen.parts.loss import LabelledTokens


class BertForMaskedLM(LabelledTokens, bert.BertForMaskedLM):
    pass
