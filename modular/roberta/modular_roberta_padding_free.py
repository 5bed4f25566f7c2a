"""roberta with flash, written by `patchgen new`.

No padding is computed: real tokens are taken out of the batch once, behind the embeddings, and put back after the
last layer. Attention is transformers' own, under every `attn_implementation`. What comes out at real tokens is the
parent's own; at padding it is zeros. See `patchgen.parts.flash`.
"""

from transformers.models.roberta import modeling_roberta as roberta

from patchgen.parts.flash import AttendsInRows, CountsFromPadding, KeepsPadding, PaddingFreeEncoder, PoolsEachText


class RobertaSelfAttention(AttendsInRows, roberta.RobertaSelfAttention):
    pass


class RobertaModel(PoolsEachText, CountsFromPadding, PaddingFreeEncoder, roberta.RobertaModel):
    pass


class RobertaForQuestionAnswering(KeepsPadding, roberta.RobertaForQuestionAnswering):
    pass
