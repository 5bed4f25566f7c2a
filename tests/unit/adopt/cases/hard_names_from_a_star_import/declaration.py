"""A fork."""

import torch
from torch import nn
from transformers.models.toy import modeling_toy as toy
from transformers.utils import is_flash_attn_2_available

from patchgen.edits import after, edit, new, old


if is_flash_attn_2_available():
    from flash_attn.bert_padding import pad_input


class ToyAttention_Own(toy.ToyAttention):
    @edit("forward")
    def add_weights(self, scores, weights):
        with old:
            weights = torch.softmax(scores, dim=-1)
        with after:
            weights = pad_input(weights)


class ToyModel_Own(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([ToyAttention_Own(config) for _ in range(config.layers)])

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


class ToyForCausalLM_Own(toy.ToyForCausalLM):
    @edit("__init__")
    def change_model(self, config):
        with old:
            self.model = toy.ToyModel(config)
        with new:
            self.model = ToyModel_Own(config)
