"""A fork."""

from mypackage.registry import BLOCKS
from torch import nn
from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


@BLOCKS.register_module("toy")
class ToyExperts(toy.ToyExperts):
    @edit("forward")
    def change_hidden(self, hidden):
        with old:
            hidden = nn.functional.silu(hidden)
        with new:
            hidden = nn.functional.gelu(hidden)
