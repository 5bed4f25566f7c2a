"""A fork."""

from torch import nn
from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyAttention(toy.ToyAttention):
    @edit("__init__")
    def change_linear(self, config):
        with old:
            self.k = nn.Linear(config.hidden, config.hidden)
        with new:
            self.k = nn.Linear(config.hidden, config.hidden, bias=False)  # no bias

    @edit("forward")
    def change_scores(self, q, k):
        with old:
            scores = q @ k.transpose(-1, -2)
        with new:
            scores = (q @ k.transpose(-1, -2)) * self.heads**-0.5


class ToyModel(toy.ToyModel):
    def forward(self, x, mask=None):
        for layer in self.layers:
            # Half of each branch.
            x = x + 0.5 * layer(x, mask)
        return x
