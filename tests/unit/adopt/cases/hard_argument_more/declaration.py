"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import New, edit, new, old


class ToyModel(toy.ToyModel):
    @edit("forward")
    def add_depth(self, depth: New = 2):
        with old:
            self.layers
        with new:
            self.layers[:depth]
