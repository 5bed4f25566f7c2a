"""RoBERTa whose self- and cross-attention call `scaled_dot_product_attention` themselves.

For those who read, step through and change the attention that they train.  It computes what transformers does under
"sdpa", bit for bit, as an encoder and as a decoder (`is_decoder`, `add_cross_attention`).

`attn_implementation` is "sdpa" (the default) or "eager"; every other is refused.  Attention weights that are asked for
come from RoBERTa's own eager attention.
"""

from collections.abc import Callable

from transformers.models.roberta import modeling_roberta as roberta

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.sdpa import SdpaOrEager, sdpa_attention


class RobertaSelfAttention(roberta.RobertaSelfAttention):
    @edit("forward")
    def call_sdpa(self, lookup: Hole, name: Hole, eager: Hole):
        with old:
            attention_interface: Callable = lookup(name, eager)
            attn_output, attn_weights = attention_interface(...)
        with new:
            attn_output, attn_weights = sdpa_attention(..., eager)


class RobertaCrossAttention(roberta.RobertaCrossAttention):
    @edit("forward")
    def call_sdpa(self, lookup: Hole, name: Hole, eager: Hole):
        with old:
            attention_interface: Callable = lookup(name, eager)
            attn_output, attn_weights = attention_interface(...)
        with new:
            attn_output, attn_weights = sdpa_attention(..., eager)


class RobertaPreTrainedModel(SdpaOrEager, roberta.RobertaPreTrainedModel):
    pass
