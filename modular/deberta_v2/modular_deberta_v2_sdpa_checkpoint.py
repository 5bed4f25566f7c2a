"""DeBERTa-v2 and v3 with attention by one call of `scaled_dot_product_attention`, and selective checkpointing.

For those who fine-tune it on long texts: transformers has only eager attention for DeBERTa.  Its disentangled biases
are computed as before, and go into the mask of SDPA with their gradients.

    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"policy": "selective"})

`attn_implementation` is "sdpa" (the default) or "eager", under which DeBERTa's own statements run, as they do where
attention weights are asked for.  See `patchgen.parts.sdpa` and `patchgen.parts.checkpoint`.
"""

import torch
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta_v2

from patchgen.edits import edit, new, old
from patchgen.parts.checkpoint import Checkpointing
from patchgen.parts.sdpa import SdpaOrEager, attend, wants_weights


class DisentangledSelfAttention(deberta_v2.DisentangledSelfAttention):
    @edit("forward")
    def call_sdpa(
        self,
        attention_mask,
        attention_probs,
        key_layer,
        output_attentions,
        query_layer,
        rel_embeddings,
        relative_pos,
        scale,
        scale_factor,
        value_layer,
    ):
        with old:
            attention_scores = torch.bmm(query_layer, key_layer.transpose(-1, -2) / scale.to(dtype=query_layer.dtype))
            ...
            context_layer = torch.bmm(
                attention_probs.view(-1, attention_probs.size(-2), attention_probs.size(-1)), value_layer
            )
        with new:
            if wants_weights(self, output_attentions):
                attention_scores = torch.bmm(
                    query_layer, key_layer.transpose(-1, -2) / scale.to(dtype=query_layer.dtype)
                )
                ...
                context_layer = torch.bmm(
                    attention_probs.view(-1, attention_probs.size(-2), attention_probs.size(-1)), value_layer
                )
            else:
                if self.relative_attention:
                    rel_embeddings = self.pos_dropout(rel_embeddings)
                    rel_att = self.disentangled_attention_bias(
                        query_layer, key_layer, relative_pos, rel_embeddings, scale_factor
                    )
                attention_mask = attention_mask.bool()
                attention_probs = None
                context_layer = attend(
                    query_layer / scale.to(dtype=query_layer.dtype),
                    key_layer,
                    value_layer,
                    rel_att,
                    attention_mask,
                    scaling=1.0,
                    dropout=self.dropout.p if self.training else 0.0,
                    heads=self.num_attention_heads,
                )

    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config


class DebertaV2PreTrainedModel(SdpaOrEager, Checkpointing, deberta_v2.DebertaV2PreTrainedModel):
    pass
