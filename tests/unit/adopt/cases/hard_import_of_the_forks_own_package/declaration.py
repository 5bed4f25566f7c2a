"""A fork."""

from transformers.models.toy import modeling_toy as toy

from .cache import cached  # patchgen: keep
from .configuration_toy import ToyConfig  # patchgen: keep


class ToyModel(toy.ToyModel):
    def forward(self, x, mask=None):
        for layer in self.layers:
            x = x + cached(layer)(x, mask)
        return x
