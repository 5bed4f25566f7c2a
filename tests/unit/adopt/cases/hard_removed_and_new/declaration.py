"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


def names(config):
    """Of both."""
    return Names(config).all


class Names:
    def __init__(self, config):
        self.all = config.names


class ToyBlock(toy.ToyBlock):
    @edit("__init__")
    def change_names(self, config):
        with old:
            self.names = ["first", "second"]
        with new:
            self.names = names(config)

    def extra(self):
        return len(self.names)
