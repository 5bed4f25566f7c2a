import torch
from fast.rope import turn
from torch import nn


class ToyNorm(nn.Module):
    def forward(self, x):
        return x / x.norm()


class ToyMLP(nn.Module):
    def forward(self, x):
        return x.relu()


class GatedAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = nn.Linear(config.hidden, 1)

    def forward(self, x, blocks):
        return turn(x * self.gate(x).sigmoid())[:, blocks]


class FastToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gated = GatedAttention(config)
        self.mlp = ToyMLP()
        self.norm = ToyNorm()

    def forward(self, x, blocks):
        for block in blocks:
            x = self.norm(self.gated(x, block))
        return self.mlp(x)
