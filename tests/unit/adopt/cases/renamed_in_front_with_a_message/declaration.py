"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class LongMLP(toy.ToyMLP):
    @edit("__init__")
    def change_valueerror(self):
        with old:
            raise ValueError("ToyMLP needs a width")
        with new:
            raise ValueError("LongMLP needs a width")


class LongModel(toy.ToyModel):
    pass
