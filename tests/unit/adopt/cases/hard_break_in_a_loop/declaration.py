"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyModel(toy.ToyModel):
    @edit("forward")
    def extend_any(self, x, layer, mask):
        while ...:
            with old:
                x = x + layer(x, mask)
            with new:
                x = x + layer(x, mask)
                if x.isnan().any():
                    break
