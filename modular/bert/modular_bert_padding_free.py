"""BERT that computes no padding.

For those who pretrain or fine-tune it on texts of different lengths: where 45 of 100 places are padding, embeddings
and layers have 55 to compute.  Real tokens are taken out of the batch once, before the embeddings, and put back after
the last layer; in between each text attends to itself, by FlashAttention-2 where the GPU has it.  What comes out at
real tokens is BERT's own; at padding it is zeros.  See `patchgen.parts.flash`.

A step of training takes 0.63 s of CPU where BERT takes 0.84 s: `python benchmarks/padding.py`, four layers of size 256
and 8,000 words, 16 texts of 16 to 128 tokens (44 % padding), float32, one core, torch 2.13.

Batches come padded (right, left, or with holes) or flattened (`DataCollatorWithFlattening`).  `attn_implementation` is
"sdpa" (the default) or "eager", which computes padding and gives attention weights.  Question answering, texts that
begin with padding where the pooler is used, and BERT as a decoder are computed as BERT does.
"""

from transformers.models.bert import modeling_bert as bert

from patchgen.parts.flash import (
    AttendsInSequences,
    FlashOrEager,
    PaddingFreeEncoder,
    PoolsFirstTokens,
    ReadsAllPositions,
)


class BertSelfAttention(AttendsInSequences, bert.BertSelfAttention):
    pass


class BertPreTrainedModel(FlashOrEager, bert.BertPreTrainedModel):
    pass


class BertModel(PaddingFreeEncoder, PoolsFirstTokens, bert.BertModel):
    pass


class BertForQuestionAnswering(ReadsAllPositions, bert.BertForQuestionAnswering):
    pass
