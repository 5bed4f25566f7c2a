"""A toy."""

from torch import nn


class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right


def halves(x):
    return Pair(x[:2], x[2:])


class ToyMLP(nn.Module):
    def __init__(self, config):
        super(ToyMLP, self).__init__()
        if config.width is None:
            raise ValueError("ToyMLP needs a width")
        self.up = nn.Linear(4, config.width)

    def forward(self, x):
        return self.up(halves(x).left)


class ToyPreTrainedModel(nn.Module):
    _no_split_modules = ["ToyMLP"]


class ToyModel(ToyPreTrainedModel):
    def __init__(self, config):
        super().__init__()
        self.mlp = ToyMLP(config)

    def forward(self, x):
        return self.mlp(x)
