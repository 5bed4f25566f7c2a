"""A fork."""

from torch import nn
from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToySparseAttention(toy.ToyAttention):
    pass


ToyAttention = ToySparseAttention


class ToyModel(toy.ToyModel):
    @edit("__init__")
    def change_layers(self, config):
        with old:
            self.layers = nn.ModuleList([ToyAttention(config) for _ in range(config.layers)])
        with new:
            self.layers = nn.ModuleList([ToySparseAttention(config) for _ in range(config.layers)])
