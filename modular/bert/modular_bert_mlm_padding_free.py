"""bert with loss and flash, written by `patchgen new`.

With labels the loss is taken without logits, and `outputs.logits` are computed when something reads them;
`config.loss_chunk_size` sets the tokens in a chunk, 0 takes the parent's loss. See `patchgen.parts.loss`.

No padding is computed: real tokens are taken out of the batch once, behind the embeddings, and put back after the
last layer. Attention is transformers' own, under every `attn_implementation`. What comes out at real tokens is the
parent's own; at padding it is zeros. See `patchgen.parts.flash`.

What stays as it was:

- transformers/models/bert/modeling_bert.py:806:30: BertForPreTraining: takes its loss in statements that the part does not know
- transformers/models/bert/modeling_bert.py:895:20: BertLMHeadModel: `self.cls`, which makes its logits, is no linear layer
"""

from transformers.models.bert import modeling_bert as bert

from patchgen.parts.flash import AttendsInRows, KeepsPadding, PaddingFreeEncoder, PoolsEachText
from patchgen.parts.loss import LabelledTokens


class BertSelfAttention(AttendsInRows, bert.BertSelfAttention):
    pass


class BertModel(PoolsEachText, PaddingFreeEncoder, bert.BertModel):
    pass


class BertForMaskedLM(LabelledTokens, bert.BertForMaskedLM):
    pass


class BertForQuestionAnswering(KeepsPadding, bert.BertForQuestionAnswering):
    pass
