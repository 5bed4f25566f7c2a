"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyBlock(toy.ToyBlock):
    def __init__(self, config):
        super().__init__(config)
        self.scale = 0.5

    @edit("forward")
    def change_scale(self, x, y, mask):
        with old:
            x = x + y
            ...
            x = x + y
        with new:
            x = x + self.scale * y
            if mask is not None:
                x = x * mask
            x = x.contiguous()
            y = self.second(x, mask)
            x = x + self.scale * y
