"""BERT that computes no padding.

For those who pretrain or fine-tune it on texts of different lengths: where 45 of 100 places are padding, layers have
55 to compute.  Real tokens are taken out of the batch once, behind the embeddings, and put back after the last layer.
Attention is transformers' own, under every `attn_implementation`.  What comes out at real tokens is BERT's; at padding
it is zeros.  See `patchgen.parts.flash`.

`python benchmarks/padding.py` measures a step of training beside BERT's.

Batches come padded at the right, with holes, or flattened (`DataCollatorWithFlattening`).  Question answering, rows
that begin with padding, BERT with a cache or an encoder's states, and forwards that give all hidden states or
attention weights are computed as BERT does.
"""

from patchgen.parts.flash import AttendsInRows, KeepsPadding, PaddingFreeEncoder, PoolsEachText
from transformers.models.bert import modeling_bert as bert


class BertSelfAttention(AttendsInRows, bert.BertSelfAttention):
    pass


class BertModel(PoolsEachText, PaddingFreeEncoder, bert.BertModel):
    pass


class BertForQuestionAnswering(KeepsPadding, bert.BertForQuestionAnswering):
    pass
