"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import after, edit, old


class ToyModel(toy.ToyModel):
    @edit("forward")
    def add_any(self, x, layer, mask):
        while ...:
            with old:
                x = x + layer(x, mask)
            with after:
                if x.isnan().any():
                    break
