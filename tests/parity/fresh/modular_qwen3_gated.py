"""Qwen3 with a learned gate on its attention and a table of offsets: new parameters, neutral at zero."""

import torch
from torch import nn
from transformers import initialization as init
from transformers.models.qwen3 import modeling_qwen3 as qwen3

__differs__ = {"Qwen3Attention": "a gate and a slope"}
__equal_if__ = {"gate": 0.0, "config.slope": 0.0}


class Qwen3Attention(qwen3.Qwen3Attention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.gate = nn.Parameter(torch.zeros(config.num_attention_heads))
        self.slope = getattr(config, "slope", 0.5)
        self.register_buffer(
            "slopes", torch.arange(config.num_attention_heads) / 4.0, persistent=False
        )

    def forward(
        self,
        hidden_states,
        position_embeddings,
        attention_mask=None,
        past_key_values=None,
        **kwargs,
    ):
        out, weights = super().forward(
            hidden_states, position_embeddings, attention_mask, past_key_values, **kwargs
        )
        strength = 1 + self.gate.mean() + self.slope * self.slopes.mean().to(out.dtype)
        return out * strength, weights


class Qwen3PreTrainedModel(qwen3.Qwen3PreTrainedModel):
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, Qwen3Attention):
            init.zeros_(module.gate)
            init.copy_(module.slopes, torch.arange(len(module.slopes)) / 4.0)
