"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyAttention(toy.ToyAttention):
    @edit("forward")
    def change_weights(self, weights, k):
        with old:
            return weights @ k
        with new:
            return 2 * weights @ k
