"""A fork."""

from fast.rope import turn
from torch import nn
from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class GatedAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = nn.Linear(config.hidden, 1)

    def forward(self, x, blocks):
        return turn(x * self.gate(x).sigmoid())[:, blocks]


class FastToyModel(toy.ToyModel):
    @edit("__init__")
    def change_gated(self, config):
        with old:
            self.layers = nn.ModuleList([toy.ToyAttention(config) for _ in range(config.layers)])
        with new:
            self.gated = GatedAttention(config)

    def forward(self, x, blocks):
        for block in blocks:
            x = self.norm(self.gated(x, block))
        return self.mlp(x)


ToyModel = FastToyModel
