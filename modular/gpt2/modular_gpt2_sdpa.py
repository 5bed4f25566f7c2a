"""GPT-2 whose self- and cross-attention call `scaled_dot_product_attention` themselves.

For those who read, step through and change the attention that they train.  It computes what transformers does under
"sdpa", bit for bit, with `scale_attn_by_inverse_layer_idx`; as there, `reorder_and_upcast_attn` counts under "eager".

`attn_implementation` is "sdpa" (the default) or "eager"; every other is refused.  Attention weights that are asked for
come from GPT-2's own eager attention.  (transformers drops that request on its way to the attention.)
"""

from collections.abc import Callable

from transformers.models.gpt2 import modeling_gpt2 as gpt2

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.sdpa import SdpaOrEager, sdpa_attention


def eager_attention(module, query, key, value, attention_mask, **kwargs):
    """What GPT-2 computes under "eager"."""
    if module.reorder_and_upcast_attn:
        return module._upcast_and_reordered_attn(query, key, value, attention_mask)
    return gpt2.eager_attention_forward(module, query, key, value, attention_mask, **kwargs)


class GPT2Attention(gpt2.GPT2Attention):
    @edit("forward")
    def call_sdpa(
        self, query_states, key_states, value_states, attention_mask, output_attentions,
        lookup: Hole, name: Hole, eager: Hole,
    ):  # fmt: skip
        with old:
            using_eager = self.config._attn_implementation == "eager"
            attention_interface: Callable = lookup(name, eager)
            if using_eager and self.reorder_and_upcast_attn:
                attn_output, attn_weights = self._upcast_and_reordered_attn(
                    query_states, key_states, value_states, attention_mask
                )
            else:
                attn_output, attn_weights = attention_interface(...)
        with new:
            attn_output, attn_weights = sdpa_attention(..., eager_attention, output_attentions=output_attentions)


class GPT2Block(gpt2.GPT2Block):
    @edit("forward")
    def pass_the_request_on(self, kwargs):
        with old:
            self.crossattention(...)
        with new:
            self.crossattention(..., output_attentions=kwargs.get("output_attentions", False))


class GPT2Model(gpt2.GPT2Model):
    @edit("forward")
    def keep_the_request(self, kwargs):
        with old:
            kwargs.pop("output_attentions", None)
        with new:
            pass


class GPT2PreTrainedModel(SdpaOrEager, gpt2.GPT2PreTrainedModel):
    pass
