"""No padding: layers run on the real tokens of a batch, and attention keeps the texts apart.

Padding is taken out once, after the embeddings, and put back once, after the last layer.
Attention is transformers' own.  An encoder needs mixins for its attention, its base model, and the
heads that read states at padding:

    class BertSelfAttention(AttendsInRows, bert.BertSelfAttention): ...
    class BertModel(PoolsEachText, PaddingFreeEncoder, bert.BertModel): ...
    class BertForQuestionAnswering(KeepsPadding, bert.BertForQuestionAnswering): ...

`CountsFromPadding` stands before `PaddingFreeEncoder` where positions are counted as RoBERTa does.
A causal model needs one for its base model and one for its head:

    class LlamaModel(PaddingFreeDecoder, llama.LlamaModel): ...
    class LlamaForCausalLM(LabelsWithinTexts, llama.LlamaForCausalLM): ...

`PaddingFreeWindowDecoder` is for one that chooses its mask by a window (Mistral), and
`PaddingFreeLayerTypesDecoder` for one whose layers have several masks (Qwen3).

How attention keeps texts apart, by `attn_implementation`:

    FlashAttention 2,     gets the lengths of texts (`cu_seq_lens_q`, `max_length_q`)
    3, 4, of the Hub
    "varlen"              gets the same; `import patchgen.runtime` registers it
    sdpa, eager, flex,    an encoder gives each text a row of its own, around one call in each
    a user's own          layer, or a padded batch its rows; a causal model has a mask of texts,
                          and computes padding as its parent does

Inputs:

    attention_mask        (B, L): tokens where it is not zero; each row is a text
    position_ids          a text begins where they restart, also beside a mask and in several rows
    cu_seq_lens_q,        the lengths of texts in one row (`DataCollatorWithFlattening` with
    max_length_q          `return_flash_attn_kwargs=True`), taken as they are

Outputs have the rows of the inputs.  States at padding are zeros, at real tokens they are the
parent's.  A pooler gives one vector for each text.

The parent's own path, padding included, runs with a cache (a causal model makes none in training,
nor of texts with lengths), where all hidden states or attention weights are asked for, and for
heads that read states at padding.  For an encoder it also runs with another model's states, and
where a row begins with padding, which poolers read, and attention takes lengths.

A ValueError refuses packed texts with a cache, `cu_seq_lens_q` without `position_ids` in an
encoder, and packed positions that begin below RoBERTa's first.

Dropout is drawn for real tokens alone, and so in another order than the parent's.

With lengths no step waits for the device, and `torch.compile` makes one graph for all lengths.
Without them the number of tokens is known to the device alone: outside of `fullgraph=True` a
compiled model breaks its graph there.
"""

from patchgen.parts.flash.decoder import (
    LabelsWithinTexts,
    PaddingFreeDecoder,
    PaddingFreeLayerTypesDecoder,
    PaddingFreeWindowDecoder,
)
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
    "PaddingFreeLayerTypesDecoder",
    "PaddingFreeWindowDecoder",
    "PoolsEachText",
]
