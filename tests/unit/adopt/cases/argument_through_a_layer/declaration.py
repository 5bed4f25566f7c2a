"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import New, edit, new, old


class ToyAttention(toy.ToyAttention):
    @edit("forward")
    def add_scale(self, q, k, scale: New = 1.0):
        with old:
            scores = q @ k.transpose(-1, -2)
        with new:
            scores = q @ k.transpose(-1, -2) * scale


class ToyModel(toy.ToyModel):
    def forward(self, x, mask=None, scale=1.0):
        for layer in self.layers:
            x = x + layer(x, mask, scale)
        return x
