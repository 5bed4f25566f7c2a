"""deberta_v2 with sdpa, written by `patchgen new`.

Attention is called by transformers' interface: `attn_implementation` is "sdpa" (the default) or "eager".
"""

from collections.abc import Callable

import torch
from torch import nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta_v2

from patchgen.edits import edit, new, old


class DisentangledSelfAttention(deberta_v2.DisentangledSelfAttention):
    is_causal = False

    @edit("forward")
    def call_the_interface(
        self, attention_mask, key_layer, query_layer, rel_embeddings, relative_pos, scale, scale_factor, value_layer
    ):
        with old:
            attention_scores = torch.bmm(query_layer, key_layer.transpose(-1, -2) / scale.to(dtype=query_layer.dtype))
            if self.relative_attention:
                rel_embeddings = self.pos_dropout(rel_embeddings)
                rel_att = self.disentangled_attention_bias(
                    query_layer, key_layer, relative_pos, rel_embeddings, scale_factor
                )
            if rel_att is not None:
                attention_scores = attention_scores + rel_att
            attention_scores = attention_scores.view(
                -1, self.num_attention_heads, attention_scores.size(-2), attention_scores.size(-1)
            )
            attention_mask = attention_mask.bool()
            attention_scores = attention_scores.masked_fill(~attention_mask, torch.finfo(query_layer.dtype).min)
            attention_probs = nn.functional.softmax(attention_scores, dim=-1)
            attention_probs = self.dropout(attention_probs)
            context_layer = torch.bmm(
                attention_probs.view(-1, attention_probs.size(-2), attention_probs.size(-1)), value_layer
            )
            context_layer = (
                context_layer.view(-1, self.num_attention_heads, context_layer.size(-2), context_layer.size(-1))
                .permute(0, 2, 1, 3)
                .contiguous()
            )
        with new:
            if self.relative_attention:
                rel_embeddings = self.pos_dropout(rel_embeddings)
                rel_att = self.disentangled_attention_bias(
                    query_layer, key_layer, relative_pos, rel_embeddings, scale_factor
                )
            attention_mask = attention_mask.bool()
            if self.config._attn_implementation == "eager":
                attention_scores = torch.bmm(
                    query_layer, key_layer.transpose(-1, -2) / scale.to(dtype=query_layer.dtype)
                )
                if rel_att is not None:
                    attention_scores = attention_scores + rel_att
                attention_scores = attention_scores.view(
                    -1, self.num_attention_heads, attention_scores.size(-2), attention_scores.size(-1)
                )
                attention_scores = attention_scores.masked_fill(~attention_mask, torch.finfo(query_layer.dtype).min)
                attention_probs = nn.functional.softmax(attention_scores, dim=-1)
                attention_probs = self.dropout(attention_probs)
                context_layer = torch.bmm(
                    attention_probs.view(-1, attention_probs.size(-2), attention_probs.size(-1)), value_layer
                )
                context_layer = (
                    context_layer.view(-1, self.num_attention_heads, context_layer.size(-2), context_layer.size(-1))
                    .permute(0, 2, 1, 3)
                    .contiguous()
                )
            else:
                attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
                    self.config._attn_implementation, sdpa_attention_forward
                )
                context_layer, attention_probs = attention_interface(
                    self,
                    (query_layer / scale.to(dtype=query_layer.dtype)).unflatten(0, (-1, self.num_attention_heads)),
                    key_layer.unflatten(0, (-1, self.num_attention_heads)),
                    value_layer.unflatten(0, (-1, self.num_attention_heads)),
                    attention_mask,
                    dropout=self.dropout.p if self.training else 0.0,
                    scaling=1.0,
                    position_bias=rel_att.unflatten(0, (-1, self.num_attention_heads))
                    if isinstance(rel_att, torch.Tensor)
                    else None,
                )

    @edit("__init__")
    def know_the_config(self, config):
        with old:
            super().__init__()
        with new:
            super().__init__()
            self.config = config


class DebertaV2PreTrainedModel(deberta_v2.DebertaV2PreTrainedModel):
    _supports_sdpa = True
