"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyBlock(toy.ToyBlock):
    @edit("forward")
    def change_forward(self, x, mask, y):
        with old:
            y = self.second(x, mask)
            x = x + y
        with new:
            y = self.second(x, mask)
            x = x - y
