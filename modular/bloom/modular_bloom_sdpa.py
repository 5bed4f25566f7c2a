"""BLOOM with attention by one call of `scaled_dot_product_attention`, which transformers does not have for it.

For those who train or run it on long texts: no matrix of scores is kept for the backward pass.  ALiBi goes into the
mask of SDPA, which is one for each head then: there is always a mask.

`attn_implementation` is "sdpa" (the default) or "eager", under which BLOOM's own statements run, as they do where
attention weights are asked for.  BLOOM's own softmax is in float32, also in a float64 model.  See
`patchgen.parts.sdpa`.
"""

import torch
from transformers.models.bloom import modeling_bloom as bloom

from patchgen.edits import edit, new, old
from patchgen.parts.sdpa import SdpaOrEager, additive_mask, attend, wants_weights


class BloomAttention(bloom.BloomAttention):
    @edit("forward")
    def call_sdpa(
        self, alibi, attention_mask, attention_probs_reshaped, key_layer, output_attentions, query_layer, value_layer
    ):
        with old:
            attention_scores = alibi.baddbmm(
                batch1=query_layer, batch2=key_layer, beta=self.beta, alpha=self.inv_norm_factor
            )
            ...
            context_layer = torch.bmm(attention_probs_reshaped, value_layer)
        with new:
            if wants_weights(self, output_attentions):
                attention_mask = additive_mask(attention_mask, query_layer, key_layer.transpose(-1, -2), causal=True)
                attention_scores = alibi.baddbmm(
                    batch1=query_layer, batch2=key_layer, beta=self.beta, alpha=self.inv_norm_factor
                )
                ...
                context_layer = torch.bmm(attention_probs_reshaped, value_layer)
            else:
                attention_probs = None
                context_layer = attend(
                    query_layer,
                    key_layer.transpose(-1, -2),
                    value_layer,
                    attention_mask,
                    alibi * self.beta,
                    causal=True,
                    scaling=self.inv_norm_factor,
                    dropout=self.attention_dropout.p if self.training else 0.0,
                    heads=self.num_heads,
                )

    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config


class BloomPreTrainedModel(SdpaOrEager, bloom.BloomPreTrainedModel):
    pass
