"""A fork."""

from torch import nn
from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyMLP(toy.ToyMLP):
    @edit("__init__")
    def change_my_inner(self, config, inner):
        with old:
            inner = config.inner
            self.width = inner.width
            self.up = nn.Linear(4, inner.width)
        with new:
            my_inner = config.inner
            self.width = my_inner.width
            self.up = nn.Linear(4, my_inner.width)
