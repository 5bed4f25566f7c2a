import torch
from torch import nn


class ToyAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.q = nn.Linear(config.hidden, config.hidden)
        self.k = nn.Linear(config.hidden, config.hidden)

    def forward(self, x, mask=None):
        """What it attends to."""
        q = self.q(x)
        k = self.k(x)
        scores = q @ k.transpose(-1, -2)
        if mask is not None:
            scores = scores + mask
        weights = torch.softmax(scores, dim=-1)
        weights = nn.functional.dropout(weights, p=0.1, training=self.training)
        return weights @ k


class ToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([ToyAttention(config) for _ in range(config.layers)])

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = x + layer(x, mask)
        return x
