"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old

from .configuration_fast_toy import FastToyConfig  # patchgen: keep


class FastToyAttention(toy.ToyAttention):
    @edit("__init__")
    def change_heads(self, config):
        with old:
            self.heads = config.heads
        with new:
            self.heads = config.heads + 1


class FastToyModel(toy.ToyModel):
    config_class = FastToyConfig
