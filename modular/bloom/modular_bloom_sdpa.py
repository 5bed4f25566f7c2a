"""BLOOM with transformers' attention interface, which transformers does not have for it.

For those who train or run it on long texts: no scores are kept for the backward pass.

    BloomForCausalLM.from_pretrained(..., attn_implementation="sdpa")  # the default
    BloomForCausalLM.from_pretrained(..., attn_implementation="flex_attention")  # keeps no bias either

ALiBi is added to the mask once, for all layers, under "sdpa": (rows, heads, queries, keys).  Every other function gets
it as `position_bias`, a view of (rows, heads, 1, keys).  FlashAttention takes no bias, and is refused.  BLOOM's own
softmax, under "eager", is in float32, also in a float64 model.
"""

from collections.abc import Callable

import torch
from patchgen.edits import edit, new, old
from torch import nn
from torch.nn import functional as F
from transformers.integrations.sdpa_attention import create_position_bias_mask
from transformers.masking_utils import create_causal_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bloom import modeling_bloom as bloom


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
    attn_weights = position_bias.flatten(0, 1).baddbmm(
        batch1=query.flatten(0, 1), batch2=key.flatten(0, 1).transpose(-1, -2), alpha=scaling
    )
    attn_weights = attn_weights.view(*query.shape[:3], -1)
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask

    # cast attention scores to fp32, compute scaled softmax and cast back to initial dtype
    attn_weights = F.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)
    attn_weights = F.dropout(attn_weights, p=dropout, training=module.training)
    attn_output = torch.matmul(attn_weights, value).transpose(1, 2)
    return attn_output, attn_weights


class BloomAttention(bloom.BloomAttention):
    is_causal = True

    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config

    @edit("forward")
    def call_the_interface(
        self, batch_size, q_length, query_layer, key_layer, value_layer, alibi, attention_mask, context_layer
    ):
        with old:
            query_layer = query_layer.reshape(batch_size * self.num_heads, -1, self.head_dim)
            ...
            context_layer = self._merge_heads(context_layer)
        with new:
            attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
                self.config._attn_implementation, eager_attention_forward
            )
            context_layer, attention_probs = attention_interface(
                self,
                query_layer,
                key_layer,
                value_layer,
                attention_mask,
                dropout=self.attention_dropout.p if self.training else 0.0,
                scaling=self.inv_norm_factor,
                position_bias=alibi,
            )
            context_layer = context_layer.reshape(batch_size, q_length, self.hidden_size)


class BloomPreTrainedModel(bloom.BloomPreTrainedModel):
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True


class BloomModel(bloom.BloomModel):
    @edit("forward")
    def add_alibi_once(self, batch_size, seq_length, inputs_embeds, attention_mask, alibi, causal_mask, hidden_states):
        with old:
            causal_mask = create_causal_mask(...)
        with new:
            causal_mask = create_causal_mask(..., allow_is_causal_skip=False)
            alibi = alibi.view(batch_size, self.num_heads, 1, -1)
            if self.config._attn_implementation == "sdpa":
                # One mask for all layers, which would each make one of their own.
                causal_mask = create_position_bias_mask(alibi, causal_mask, False, alibi, alibi)
                alibi = None
            else:
                alibi = alibi.expand(-1, -1, seq_length, -1)
