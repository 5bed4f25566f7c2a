from torch import nn

from transformers.integrations import use_kernelized_func


def rotate(query, key, cos, sin):
    if cos is None:
        return query, key
    return query * cos + key * sin, key * cos - query * sin


@use_kernelized_func(rotate)
class ToyAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, hidden, cos, sin):
        query, key = rotate(self.query(hidden), self.key(hidden), cos, sin)
        return self.out(query @ key.transpose(-1, -2) @ hidden)


class ToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = ToyAttention(config)

    def forward(self, hidden, cos, sin):
        return self.attention(hidden, cos, sin)
