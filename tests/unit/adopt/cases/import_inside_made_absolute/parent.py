"""A toy."""

from torch import nn


class ToyMLP(nn.Module):
    def forward(self, x):
        from ...utils import is_flash_attn_2_available

        return x if is_flash_attn_2_available() else -x


class ToyModel(nn.Module):
    def forward(self, x):
        x = x * 2
        return x
