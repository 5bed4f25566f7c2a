"""GPT-2's attention and FFN with their settings read again; all equal the parent's."""

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.models.gpt2 import modeling_gpt2 as gpt2
from transformers.pytorch_utils import Conv1D


class GPT2MLP(gpt2.GPT2MLP):
    def __init__(self, intermediate_size, config):
        nn.Module.__init__(self)
        self.c_fc = Conv1D(intermediate_size, config.hidden_size)
        self.c_proj = Conv1D(config.hidden_size, intermediate_size)
        self.act = ACT2FN[config.activation_function]
        self.rate = config.resid_pdrop

    def forward(self, hidden_states):
        inner = self.act(self.c_fc(hidden_states))
        return nn.functional.dropout(self.c_proj(inner), self.rate, self.training)


class GPT2Block(gpt2.GPT2Block):
    def __init__(self, config, layer_idx=None):
        super().__init__(config, layer_idx)
        inner = config.n_inner if config.n_inner is not None else 4 * config.hidden_size
        self.mlp = GPT2MLP(inner, config)


class GPT2Attention(gpt2.GPT2Attention):
    def __init__(self, config, is_cross_attention=False, layer_idx=None):
        super().__init__(config, is_cross_attention, layer_idx)
        self.scaling = self.head_dim**-0.5 if config.scale_attn_weights else 1.0
        if config.scale_attn_by_inverse_layer_idx:
            self.scaling = self.scaling / (layer_idx + 1)


class GPT2PreTrainedModel(gpt2.GPT2PreTrainedModel):
    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)


class GPT2LMHeadModel(gpt2.GPT2LMHeadModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
