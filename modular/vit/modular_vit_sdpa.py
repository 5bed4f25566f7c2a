"""ViT whose attention calls `scaled_dot_product_attention` itself.

For those who read, step through and change the attention that they train.  It computes what transformers does under
"sdpa", bit for bit.

`attn_implementation` is "sdpa" (the default) or "eager"; every other is refused.  Attention weights that are asked for
come from ViT's own eager attention.
"""

from collections.abc import Callable

from transformers.models.vit import modeling_vit as vit

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.sdpa import SdpaOrEager, sdpa_attention


class ViTAttention(vit.ViTAttention):
    @edit("forward")
    def call_sdpa(self, lookup: Hole, name: Hole, eager: Hole):
        with old:
            attention_interface: Callable = lookup(name, eager)
            attn_output, attn_weights = attention_interface(...)
        with new:
            attn_output, attn_weights = sdpa_attention(..., eager)


class ViTPreTrainedModel(SdpaOrEager, vit.ViTPreTrainedModel):
    pass
