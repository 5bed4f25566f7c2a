"""Llama whose attention calls `scaled_dot_product_attention` itself.

For those who read, step through and change the attention that they train: the call stands in the file, without a
dispatch in between.  It computes what transformers computes under "sdpa", bit for bit; it is the smallest variant, and
the ground for others.

Compiled, it gets no mask where transformers makes one all the same: without padding, packed rows and past tokens.
With `config.assume_right_padding` that holds for rows padded on the right as well; see `patchgen.parts.sdpa`.

`attn_implementation` is "sdpa" (the default) or "eager"; every other is refused.  Attention weights that are asked for
come from Llama's own eager attention.
"""

from collections.abc import Callable

from transformers.models.llama import modeling_llama as llama

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.sdpa import CausalWithoutMask, SdpaOrEager, sdpa_attention


class LlamaAttention(llama.LlamaAttention):
    @edit("forward")
    def call_sdpa(self, lookup: Hole, name: Hole, eager: Hole):
        with old:
            attention_interface: Callable = lookup(name, eager)
            attn_output, attn_weights = attention_interface(...)
        with new:
            attn_output, attn_weights = sdpa_attention(..., eager)


class LlamaPreTrainedModel(SdpaOrEager, llama.LlamaPreTrainedModel):
    pass


class LlamaModel(CausalWithoutMask, llama.LlamaModel):
    pass
