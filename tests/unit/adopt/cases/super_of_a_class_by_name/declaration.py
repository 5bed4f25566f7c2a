"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import before, edit, old

from ...kernels.scale import scaled  # patchgen: keep


class ToyModel(toy.ToyModel):
    @edit("forward")
    def add_scaled(self, x):
        with old:
            return x
        with before:
            x = scaled(x)
