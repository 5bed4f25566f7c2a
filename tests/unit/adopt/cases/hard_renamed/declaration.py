"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old

from .configuration_own import OwnConfig  # patchgen: keep


class OwnAttention(toy.ToyAttention):
    @edit("__init__")
    def change_heads(self, config):
        with old:
            self.heads = config.heads
        with new:
            self.heads = config.heads + 1


class OwnModel(toy.ToyModel):
    config_class = OwnConfig
