"""A fork."""

import torch
from torch import nn

from transformers.models.toy import modeling_toy as toy

from .configuration_toy import ToyConfig  # patchgen: keep


HAS_WINDOWS = False


try:
    from flash_attn import flash_attn_func
    from flash_attn.bert_padding import pad_input

    HAS_WINDOWS = "window" in flash_attn_func.__code__.co_varnames
except ImportError:
    if not HAS_WINDOWS:
        print("without windows")


class ToyAttention(toy.ToyAttention):
    pass


class ToyMLP(nn.Module):
    def forward(self, x):
        y = x.exp()
        z = y - x
        y = y + 2 * z
        return torch.tanh(y)
