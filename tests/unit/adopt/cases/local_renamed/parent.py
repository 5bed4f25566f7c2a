"""A toy."""

from torch import nn


class ToyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        inner = config.inner
        self.width = inner.width
        self.up = nn.Linear(4, inner.width)
        self.down = nn.Linear(4, 4)
        self.act = nn.Tanh()
        self.drop = nn.Dropout(config.dropout)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class ToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mlp = ToyMLP(config)
