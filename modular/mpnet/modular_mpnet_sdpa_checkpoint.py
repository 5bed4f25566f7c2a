"""MPNet with attention by one call of `scaled_dot_product_attention`, and with activation checkpointing.

For those who train sentence embeddings with batches that do not fit: transformers has neither for MPNet.  The relative
position bias is added to the scores through the mask of SDPA, and gets its gradient.

    model.gradient_checkpointing_enable()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"policy": "selective"})

`attn_implementation` is "sdpa" (the default) or "eager", under which MPNet's own statements run, as they do where
attention weights are asked for.  See `patchgen.parts.sdpa` and `patchgen.parts.checkpoint`.
"""

import math

import torch
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.mpnet import modeling_mpnet as mpnet

from patchgen.edits import edit, new, old
from patchgen.parts.checkpoint import Checkpointing
from patchgen.parts.sdpa import SdpaOrEager, additive_mask, attend, wants_weights


class MPNetPreTrainedModel(SdpaOrEager, Checkpointing, mpnet.MPNetPreTrainedModel):
    pass


class MPNetSelfAttention(mpnet.MPNetSelfAttention):
    @edit("forward")
    def call_sdpa(self, attention_mask, attention_probs, k, output_attentions, position_bias, q, v):
        with old:
            attention_scores = torch.matmul(q, k.transpose(-1, -2))
            ...
            c = torch.matmul(attention_probs, v)
        with new:
            if wants_weights(self, output_attentions):
                attention_mask = additive_mask(attention_mask, q, k, causal=False)
                attention_scores = torch.matmul(q, k.transpose(-1, -2))
                ...
                c = torch.matmul(attention_probs, v)
            else:
                attention_probs = None
                c = attend(
                    q,
                    k,
                    v,
                    attention_mask,
                    position_bias,
                    scaling=1 / math.sqrt(self.attention_head_size),
                    dropout=self.dropout.p if self.training else 0.0,
                )

    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config


class MPNetLayer(mpnet.MPNetLayer, GradientCheckpointingLayer):
    pass
