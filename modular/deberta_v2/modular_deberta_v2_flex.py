"""DeBERTa-v2 and v3 with transformers' attention interface.

For those who fine-tune it on long texts: transformers has only eager attention for DeBERTa.

    DebertaV2Model.from_pretrained(..., attn_implementation="sdpa")  # the default; or "eager", "flex_attention"

Its disentangled biases are computed as before, and handed to the attention function as `position_bias`: they are
added to the mask under "sdpa", to each score under "flex_attention", with their gradients.  FlashAttention takes no
bias, and is refused.

Written by hand: it shows how a mask of the model's own gives way to one of transformers, which flex attention needs.
"""

from collections.abc import Callable

import torch
from torch import nn
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta_v2

from patchgen.edits import edit, new, old


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
    attn_weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    if position_bias is not None:
        attn_weights = attn_weights + position_bias
    attn_weights = attn_weights.masked_fill(~attention_mask, torch.finfo(query.dtype).min)

    attn_weights = nn.functional.softmax(attn_weights, dim=-1)
    attn_weights = nn.functional.dropout(attn_weights, p=dropout, training=module.training)
    attn_output = torch.matmul(attn_weights, value).transpose(1, 2).contiguous()
    return attn_output, attn_weights


class DisentangledSelfAttention(deberta_v2.DisentangledSelfAttention):
    is_causal = False

    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config

    @edit("forward")
    def leave_the_scores_to_the_function(self, query_layer, key_layer, scale):
        with old:
            attention_scores = torch.bmm(query_layer, key_layer.transpose(-1, -2) / scale.to(dtype=query_layer.dtype))
        with new:
            pass

    @edit("forward")
    def call_the_interface(
        self,
        query_layer,
        key_layer,
        value_layer,
        scale,
        rel_att,
        attention_mask,
        attention_scores,
        context_layer,
    ):
        with old:
            if rel_att is not None:
                attention_scores = attention_scores + rel_att
            ...
            context_layer = (
                context_layer.view(-1, self.num_attention_heads, context_layer.size(-2), context_layer.size(-1))
                .permute(0, 2, 1, 3)
                .contiguous()
            )
        with new:
            heads = (-1, self.num_attention_heads)
            if isinstance(rel_att, torch.Tensor):
                # A copy: compiled flex attention gives no gradient to a view.
                rel_att = rel_att.unflatten(0, heads).clone()
            attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
                self.config._attn_implementation, eager_attention_forward
            )
            context_layer, attention_probs = attention_interface(
                self,
                query_layer.unflatten(0, heads),
                (key_layer / scale.to(dtype=query_layer.dtype)).unflatten(0, heads),
                value_layer.unflatten(0, heads),
                attention_mask,
                dropout=self.dropout.p if self.training else 0.0,
                scaling=1.0,  # the keys are scaled
                position_bias=rel_att,
            )


class DebertaV2Encoder(deberta_v2.DebertaV2Encoder):
    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config

    @edit("forward")
    def make_the_mask(self, hidden_states, attention_mask):
        with old:
            attention_mask = self.get_attention_mask(attention_mask)
        with new:
            if self.config._attn_implementation in ("eager", "sdpa"):
                attention_mask = self.get_attention_mask(attention_mask).bool()
            else:
                attention_mask = create_bidirectional_mask(self.config, hidden_states, attention_mask)


class DebertaV2PreTrainedModel(deberta_v2.DebertaV2PreTrainedModel):
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
