"""A fork."""

import torch
from torch import nn
from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit


class Streams:
    window = 4


class ToyAttention(toy.ToyAttention, Streams, nn.Module):
    pass


class ToyModel(toy.ToyModel):
    @torch.no_grad()
    @edit("forward")
    def add_forward(self): ...
