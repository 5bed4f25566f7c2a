"""No padding: layers run on the real tokens of a batch, and attention keeps the texts apart.

Padding is taken out once, after the embeddings, and put back once, after the last layer.
Attention is transformers' own.  An encoder needs mixins for its attention, its base model, and the
heads that read states at padding:

    class BertSelfAttention(AttendsInRows, bert.BertSelfAttention): ...
    class BertModel(PoolsEachText, PaddingFreeEncoder, bert.BertModel): ...
    class BertForQuestionAnswering(KeepsPadding, bert.BertForQuestionAnswering): ...

`CountsFromPadding` stands before `PaddingFreeEncoder` where positions are counted as RoBERTa does.
A causal model needs a mixin for its base model alone:

    class LlamaModel(PaddingFreeDecoder, llama.LlamaModel): ...

How attention keeps texts apart, by `attn_implementation`:

    FlashAttention 2,     gets the lengths of texts (`cu_seq_lens_q`, `max_length_q`)
    3, 4, of the Hub
    "varlen"              gets the same; `import patchgen.runtime` registers it
    sdpa, eager, flex,    an encoder gives each text a row of its own, around one call in each
    a user's own          layer, with transformers' mask of padding; a causal model is its parent:
                          transformers makes a mask of packed texts itself

Inputs:

    attention_mask        (B, L): tokens where it is not zero; each row is a text
    position_ids          without a mask: a text begins where they restart, in all rows of a causal
                          model, in a batch of one row of an encoder (`DataCollatorWithFlattening`)

Outputs have the rows of the inputs.  States at padding are zeros, at real tokens they are the
parent's.  A pooler gives one vector for each text.

The parent's own path, padding included, runs with a cache (a causal model makes none in training),
where all hidden states or attention weights are asked for, and for heads that read states at
padding.  For an encoder it also runs with another model's states, and where a row begins with
padding, which poolers read.

A ValueError refuses `cu_seq_lens_q` without `position_ids` in an encoder, and packed positions that
begin below RoBERTa's first.

Dropout is drawn for real tokens alone, and so in another order than the parent's.  Under
`torch.compile` a batch with a mask, or with positions of packed texts, breaks the graph once, after
the embeddings, because the number of tokens is not known before.  All layers are one graph, which
serves every number of tokens from the second batch on.
"""

from patchgen.parts.flash.decoder import LabelsWithinTexts, PaddingFreeDecoder
from patchgen.parts.flash.encoder import (
    AttendsInRows,
    CountsFromPadding,
    PaddingFreeEncoder,
    PoolsEachText,
)
from patchgen.parts.flash.heads import KeepsPadding

__all__ = [
    "AttendsInRows",
    "CountsFromPadding",
    "KeepsPadding",
    "LabelsWithinTexts",
    "PaddingFreeDecoder",
    "PaddingFreeEncoder",
    "PoolsEachText",
]
