"""A fork."""

import torch
from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyAttention(toy.ToyAttention):
    @edit("forward")
    def change_weights(self, scores):
        with old:
            weights = torch.softmax(scores, dim=-1)
        with new:
            weights = torch.softmax(scores.float(), dim=-1)
