import torch
from torch import nn


def rotate(x):
    return torch.cat((-x[..., 1:], x[..., :1]), dim=-1)


class ToyNorm(nn.Module):
    def forward(self, x):
        return x / x.norm()


class ToyMLP(nn.Module):
    def forward(self, x):
        return x.relu()


class ToyAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.q = nn.Linear(config.hidden, config.hidden)
        self.k = nn.Linear(config.hidden, config.hidden)

    def forward(self, x, mask=None):
        q = rotate(self.q(x))
        k = rotate(self.k(x))
        scores = q @ k.transpose(-1, -2)
        return torch.softmax(scores, dim=-1) @ k


class ToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([ToyAttention(config) for _ in range(config.layers)])
        self.mlp = ToyMLP()
        self.norm = ToyNorm()

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = x + layer(x, mask)
        return self.norm(self.mlp(x))


class ToyHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = ToyModel(config)
        self.score = nn.Linear(config.hidden, config.labels, bias=False)

    def forward(self, x, labels=None):
        scores = self.score(self.model(x)[:, -1])
        return nn.functional.cross_entropy(scores, labels), scores
