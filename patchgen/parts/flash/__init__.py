"""No padding: the tokens of a batch in one row, and attention within each sequence by FlashAttention-2.

The padding is taken out once, before the embeddings, and put back once, after the last layer.  Everything between runs
on real tokens alone; the attention knows where sequences begin from `cu_seq_lens_q`, which goes to all layers by
transformers' own way for it.  A model takes part by its attention, its base model, and the names that it takes:

    class BertSelfAttention(AttendsInSequences, bert.BertSelfAttention): ...
    class BertModel(PaddingFreeEncoder, PoolsFirstTokens, bert.BertModel): ...
    class BertPreTrainedModel(FlashOrEager, bert.BertPreTrainedModel): ...

`PaddingFreeDecoder` is for causal models with rotary positions, `OffsetPositions` before `PaddingFreeEncoder` for
positions counted as RoBERTa does.  Heads that read places where padding may stand say so by `ReadsFirstPosition` or
`ReadsAllPositions`.

What goes in:

    attention_mask       (B, L): tokens where it is not zero, wherever they stand in their rows; positions are those
                         that the parent gives them there
    no mask              each row is a sequence.  Where `position_ids` are given and restart, each restart begins one:
                         in all rows of a decoder, in a batch of one row of an encoder (`DataCollatorWithFlattening`)
    cu_seq_lens_q, ...   of a batch of one row, without a mask; positions restart where none are given

What comes out stands in the rows that came in.  States of padding, hidden states included, are zeros, and what a head
makes of them is what it makes of zeros; at real tokens all is the parent's.  A pooler gives one vector per sequence.

The parent's own path, padding included, runs under "eager", with a cache, for a decoder made of an encoder, with
`output_attentions`, with masks of four dimensions, and where a head reads positions that are padding in this batch:
question answering compares all of a row, padding included, and a row that begins with padding is pooled from there.

Refused by a ValueError: every `attn_implementation` but "sdpa" and "eager"; `cu_seq_lens_q` where it could not be
followed, or does not end with the tokens; packed rows in a head that reads whole rows; packed positions that begin
below RoBERTa's first.

Which kernel runs is decided by the device, the dtype and what is installed: see `patchgen.parts.flash.kernels`.
Dropout is drawn for real tokens alone, and so in another order than the parent's.  Under `torch.compile` a batch with
a mask, or with positions or lengths of packed texts, breaks the graph once, before the embeddings
(`patchgen.parts.flash.sequences`): embeddings and layers are one graph, which serves every number of tokens from the
second batch on.  A batch without breaks nothing.
"""

from patchgen.parts.flash.attention import FlashOrEager, flash_attention
from patchgen.parts.flash.kernels import Form, attend_in_sequences
from patchgen.parts.flash.models import OffsetPositions, PaddingFreeDecoder, PaddingFreeEncoder
from patchgen.parts.flash.places import AttendsInSequences, PoolsFirstTokens, ReadsAllPositions, ReadsFirstPosition

__all__ = [
    "AttendsInSequences",
    "FlashOrEager",
    "Form",
    "OffsetPositions",
    "PaddingFreeDecoder",
    "PaddingFreeEncoder",
    "PoolsFirstTokens",
    "ReadsAllPositions",
    "ReadsFirstPosition",
    "attend_in_sequences",
    "flash_attention",
]
