"""mpnet with sdpa and checkpoint, written by `patchgen new`.

Attention is called by transformers' interface: `attn_implementation` is "sdpa" (the default), "eager",
"flex_attention" or a function of your own.

Activation checkpointing: `model.activation_checkpointing_enable()`.
"""

import math
from collections.abc import Callable

import torch
from transformers.integrations.sdpa_attention import create_position_bias_mask, sdpa_attention_forward
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.mpnet import modeling_mpnet as mpnet

from patchgen.edits import before, edit, new, old


class MPNetPreTrainedModel(mpnet.MPNetPreTrainedModel):
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    supports_gradient_checkpointing = True


class MPNetSelfAttention(mpnet.MPNetSelfAttention):
    is_causal = False

    @edit("forward")
    def call_the_interface(self, attention_mask, c, k, position_bias, q, v):
        with old:
            attention_scores = torch.matmul(q, k.transpose(-1, -2))
            ...
            c = c.permute(0, 2, 1, 3).contiguous()
        with new:
            if self.config._attn_implementation == "eager":
                attention_scores = torch.matmul(q, k.transpose(-1, -2))
                ...
                c = c.permute(0, 2, 1, 3).contiguous()
            else:
                attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
                    self.config._attn_implementation, sdpa_attention_forward
                )
                c, attention_probs = attention_interface(
                    self,
                    q,
                    k,
                    v,
                    attention_mask,
                    dropout=self.dropout.p if self.training else 0.0,
                    scaling=1 / math.sqrt(self.attention_head_size),
                    position_bias=position_bias,
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


class MPNetEncoder(mpnet.MPNetEncoder):
    @edit("forward")
    def add_the_bias_once(self, attention_mask, position_bias):
        with old:
            for i, layer_module in enumerate(self.layer):
                ...
        with before:
            if self.config._attn_implementation == "sdpa":
                # One mask for all layers, which would each make one of their own.
                attention_mask = create_position_bias_mask(
                    position_bias, attention_mask, False, position_bias, position_bias
                )
                position_bias = None
