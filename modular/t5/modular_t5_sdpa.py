"""T5 whose attention calls `scaled_dot_product_attention` itself, the position bias in its mask.

For those who read, step through and change the attention that they train: encoder, decoder and cross-attention are one
class.  It computes what transformers does under "sdpa", bit for bit.

`attn_implementation` is "sdpa" (the default) or "eager"; every other is refused.  Attention weights that are asked for
come from T5's own eager attention.
"""

from collections.abc import Callable

from transformers.models.t5 import modeling_t5 as t5

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.sdpa import SdpaOrEager, sdpa_attention


class T5Attention(t5.T5Attention):
    @edit("forward")
    def call_sdpa(self, lookup: Hole, name: Hole, eager: Hole):
        with old:
            attention_interface: Callable = lookup(name, eager)
            attn_output, attn_weights = attention_interface(...)
        with new:
            attn_output, attn_weights = sdpa_attention(..., eager)


class T5PreTrainedModel(SdpaOrEager, t5.T5PreTrainedModel):
    pass
