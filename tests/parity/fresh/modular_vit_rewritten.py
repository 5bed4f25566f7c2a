"""ViT's attention and pooler as a user writes them again; all equal the parent's."""

import torch
from torch import nn
from transformers.models.vit import modeling_vit as vit


class ViTAttention(vit.ViTAttention):
    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch, length, _ = hidden_states.shape
        shape = (batch, length, self.num_attention_heads, self.head_dim)
        weight = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        bias = None
        if self.q_proj.bias is not None:
            bias = torch.cat([self.q_proj.bias, self.k_proj.bias, self.v_proj.bias])
        all_three = nn.functional.linear(hidden_states, weight, bias).chunk(3, -1)
        query, key, value = (each.reshape(shape).transpose(1, 2) for each in all_three)
        weights = (
            (query @ key.transpose(2, 3) * self.scaling)
            .softmax(-1, dtype=torch.float32)
            .to(query.dtype)
        )
        weights = nn.functional.dropout(weights, self.attention_dropout, self.training)
        out = (weights @ value).transpose(1, 2).reshape(batch, length, -1)
        return self.o_proj(out), weights


class ViTPreTrainedModel(vit.ViTPreTrainedModel):
    _supports_flash_attn = False
    _supports_flex_attn = False
