"""RoBERTa that computes no padding.

For those who pretrain or fine-tune it on texts of different lengths: where 45 of 100 places are padding, embeddings
and layers have 55 to compute.  What comes out at real tokens is RoBERTa's own; at padding it is zeros.  See
`patchgen.parts.flash`.

Batches come padded or flattened; `DataCollatorWithFlattening` needs `position_ids_start=2` here, and a batch that
counts from 0 is refused.  `attn_implementation` is "sdpa" (the default) or "eager", which computes padding and gives
attention weights.  Question answering, classes of texts that begin with padding, and RoBERTa as a decoder are
computed as RoBERTa does.
"""

from transformers.models.roberta import modeling_roberta as roberta

from patchgen.parts.flash import (
    AttendsInSequences,
    FlashOrEager,
    OffsetPositions,
    PaddingFreeEncoder,
    PoolsFirstTokens,
    ReadsAllPositions,
    ReadsFirstPosition,
)


class RobertaSelfAttention(AttendsInSequences, roberta.RobertaSelfAttention):
    pass


class RobertaPreTrainedModel(FlashOrEager, roberta.RobertaPreTrainedModel):
    pass


class RobertaModel(OffsetPositions, PaddingFreeEncoder, PoolsFirstTokens, roberta.RobertaModel):
    pass


class RobertaForSequenceClassification(ReadsFirstPosition, roberta.RobertaForSequenceClassification):
    pass


class RobertaForQuestionAnswering(ReadsAllPositions, roberta.RobertaForQuestionAnswering):
    pass
