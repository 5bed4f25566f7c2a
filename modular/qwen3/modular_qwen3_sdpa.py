"""Qwen3 whose attention calls `scaled_dot_product_attention` itself, and gets no mask where it needs none.

For those who train it compiled, on full rows or on rows padded on the right (`config.assume_right_padding`).  It
computes what transformers does under "sdpa", bit for bit, in layers with and without a sliding window.

Compiled, it gets no mask where transformers makes one all the same: without padding, packed rows and past tokens, and
where the window holds every key.  See `patchgen.parts.sdpa`.

`attn_implementation` is "sdpa" (the default) or "eager"; every other is refused.  Attention weights that are asked for
come from Qwen3's own eager attention.
"""

from collections.abc import Callable

from transformers.models.qwen3 import modeling_qwen3 as qwen3

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.sdpa import SdpaOrEager, SlidingWithoutMask, sdpa_attention


class Qwen3Attention(qwen3.Qwen3Attention):
    @edit("forward")
    def call_sdpa(self, lookup: Hole, name: Hole, eager: Hole, window: Hole):
        with old:
            attention_interface: Callable = lookup(name, eager)
            attn_output, attn_weights = attention_interface(..., sliding_window=window)
        with new:
            # The sliding window is in the mask.
            attn_output, attn_weights = sdpa_attention(..., eager)


class Qwen3PreTrainedModel(SdpaOrEager, qwen3.Qwen3PreTrainedModel):
    pass


class Qwen3Model(SlidingWithoutMask, qwen3.Qwen3Model):
    pass
