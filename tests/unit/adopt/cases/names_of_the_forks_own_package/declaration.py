"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old

from .cache import Cache, Store  # patchgen: keep
from .kernels_of_a_long_name_for_this_fork import (  # patchgen: keep
    fast_norm,
    quantized_attention,
    shifted_positions_of_all_keys,
)


class ToyAttention(toy.ToyAttention):
    @edit("forward")
    def change_shifted_positions_of_all_keys(self, x, k):
        with old:
            k = self.k(x)
        with new:
            k = shifted_positions_of_all_keys(fast_norm(self.k(x)))
            k = Cache(Store(quantized_attention(k)))
