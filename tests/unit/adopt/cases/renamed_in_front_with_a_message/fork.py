"""A toy."""

from torch import nn


class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right


def halves(x):
    return Pair(x[:2], x[2:])


class LongMLP(nn.Module):
    def __init__(self, config):
        super(LongMLP, self).__init__()
        if config.width is None:
            raise ValueError("LongMLP needs a width")
        self.up = nn.Linear(4, config.width)

    def forward(self, x):
        return self.up(halves(x).left)


class LongPreTrainedModel(nn.Module):
    _no_split_modules = ["LongMLP"]


class LongModel(LongPreTrainedModel):
    def __init__(self, config):
        super().__init__()
        self.mlp = LongMLP(config)

    def forward(self, x):
        return self.mlp(x)
