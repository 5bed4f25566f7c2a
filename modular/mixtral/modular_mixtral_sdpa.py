"""Mixtral whose attention calls `scaled_dot_product_attention` itself.

For those who read, step through and change the attention that they train.  It computes what transformers does under
"sdpa", bit for bit, sliding window included.  The experts are untouched and follow `experts_implementation`.

Compiled, it gets no mask where transformers makes one all the same: without padding, packed rows and past tokens, and
where the window holds every key.  See `patchgen.parts.sdpa`.

`attn_implementation` is "sdpa" (the default) or "eager"; every other is refused.  Attention weights that are asked for
come from Mixtral's own eager attention.
"""

from collections.abc import Callable

from transformers.models.mixtral import modeling_mixtral as mixtral

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.sdpa import SdpaOrEager, SlidingWithoutMask, sdpa_attention


class MixtralAttention(mixtral.MixtralAttention):
    @edit("forward")
    def call_sdpa(self, lookup: Hole, name: Hole, eager: Hole, window: Hole):
        with old:
            attention_interface: Callable = lookup(name, eager)
            attn_output, attn_weights = attention_interface(..., sliding_window=window)
        with new:
            # The sliding window is in the mask.
            attn_output, attn_weights = sdpa_attention(..., eager)


class MixtralPreTrainedModel(SdpaOrEager, mixtral.MixtralPreTrainedModel):
    pass


class MixtralModel(SlidingWithoutMask, mixtral.MixtralModel):
    pass
