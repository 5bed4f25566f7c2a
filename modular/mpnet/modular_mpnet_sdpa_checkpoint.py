"""MPNet with transformers' attention interface, and with activation checkpointing.

For those who train sentence embeddings with batches that do not fit: transformers has neither for MPNet.

    MPNetModel.from_pretrained(..., attn_implementation="sdpa")  # the default; or "eager", "flex_attention", your own
    model.activation_checkpointing_enable()

The relative position bias is handed to the attention function as `position_bias`: it is added to the mask under
"sdpa", to each score under "flex_attention", and gets its gradient.  Flash attention takes no bias, and is refused.
"""

import math
from collections.abc import Callable

import torch
from patchgen.edits import edit, new, old
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.mpnet import modeling_mpnet as mpnet


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    position_bias: torch.Tensor | None = None,
    **kwargs,
):
    attn_weights = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(query.shape[-1])
    if position_bias is not None:
        attn_weights = attn_weights + position_bias
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask

    attn_weights = nn.functional.softmax(attn_weights, dim=-1)
    attn_weights = nn.functional.dropout(attn_weights, p=dropout, training=module.training)
    attn_output = torch.matmul(attn_weights, value).transpose(1, 2).contiguous()
    return attn_output, attn_weights


class MPNetPreTrainedModel(mpnet.MPNetPreTrainedModel):
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True


class MPNetSelfAttention(mpnet.MPNetSelfAttention):
    is_causal = False

    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config

    @edit("forward")
    def call_the_interface(self, q, k, v, position_bias, attention_mask, attention_probs, c):
        with old:
            attention_scores = torch.matmul(q, k.transpose(-1, -2))
            ...
            c = c.permute(0, 2, 1, 3).contiguous()
        with new:
            attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
                self.config._attn_implementation, eager_attention_forward
            )
            c, attention_probs = attention_interface(
                self,
                q,
                k,
                v,
                attention_mask,
                dropout=self.dropout.p if self.training else 0.0,
                scaling=self.attention_head_size**-0.5,
                position_bias=position_bias,
            )


class MPNetLayer(mpnet.MPNetLayer, GradientCheckpointingLayer):
    pass
