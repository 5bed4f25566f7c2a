"""A fork."""

from torch import nn
from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyAttention(toy.ToyAttention):
    @edit("__init__")
    def change_heads(self, config):
        with old:
            self.heads = config.heads
        with new:
            self.heads = config.heads * 2
            self.scale = config.scale


class ToyModel(toy.ToyModel):
    def __init__(self, config):
        super().__init__(config)
        self.norm = nn.LayerNorm(config.hidden)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = x + layer(x, mask)
        return self.norm(x)
