"""A fork."""

from torch import nn
from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyModel(toy.ToyModel):
    @edit("__init__")
    def change_layers(self, config):
        with old:
            self.layers = nn.ModuleList([toy.ToyLayer(number) for number in range(config.layers)])
        with new:
            self.layers = nn.ModuleList([toy.ToyLayer(number + 1) for number in range(config.layers)])

    @edit("forward")
    def change_hidden_states(self, layer, hidden_states, mask, kwargs):
        with old:
            hidden_states = layer(hidden_states, mask=mask, **kwargs)
        with new:
            hidden_states = layer(hidden_states, mask=mask, **kwargs, scale=2.0)
