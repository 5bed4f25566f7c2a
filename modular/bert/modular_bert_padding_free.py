"""bert with flash, written by `patchgen new`.

No padding is computed: real tokens are taken out of the batch once, behind the embeddings, and put back after the
last layer. Attention is transformers' own, under every `attn_implementation`. What comes out at real tokens is the
parent's own; at padding it is zeros. See `patchgen.parts.flash`.
"""

from transformers.models.bert import modeling_bert as bert

from patchgen.parts.flash import AttendsInRows, KeepsPadding, PaddingFreeEncoder, PoolsEachText


class BertSelfAttention(AttendsInRows, bert.BertSelfAttention):
    pass


class BertModel(PoolsEachText, PaddingFreeEncoder, bert.BertModel):
    pass


class BertForQuestionAnswering(KeepsPadding, bert.BertForQuestionAnswering):
    pass
