"""RoBERTa that computes no padding.

For those who pretrain or fine-tune it on texts of different lengths: where 45 of 100 places are padding, layers have
55 to compute.  What comes out at real tokens is RoBERTa's own; at padding it is zeros.  See `patchgen.parts.flash`.

Batches come padded or flattened; `DataCollatorWithFlattening` needs `position_ids_start=2` here, and a batch that
counts from 0 is refused.  Question answering, rows that begin with padding, RoBERTa with a cache or an encoder's
states, and forwards that give all hidden states or attention weights are computed as RoBERTa does.
"""

from patchgen.parts.flash import AttendsInRows, CountsFromPadding, KeepsPadding, PaddingFreeEncoder, PoolsEachText
from transformers.models.roberta import modeling_roberta as roberta


class RobertaSelfAttention(AttendsInRows, roberta.RobertaSelfAttention):
    pass


class RobertaModel(PoolsEachText, CountsFromPadding, PaddingFreeEncoder, roberta.RobertaModel):
    pass


class RobertaForQuestionAnswering(KeepsPadding, roberta.RobertaForQuestionAnswering):
    pass
