# Small torch modules: what `nn.Module` adds to classes (registration, order, buffers, `__call__`).
# The format is told in ../../packages.py.

# === torch: layer replaced in __init__
# classes: ToyMLP
# overrides: ToyMLP
# --- modeling_toy.py
import torch
from torch import nn


class ToyMLP(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.up = nn.Linear(size, size * 2)
        self.act = nn.ReLU()
        self.down = nn.Linear(size * 2, size)
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return self.down(self.act(self.up(x))) * self.scale


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([ToyMLP() for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x) + x
        return x
# --- modular_neo.py
from torch import nn

from . import modeling_toy as toy


class ToyMLP(toy.ToyMLP):
    def __init__(self, size=4):
        super().__init__(size)
        self.act = nn.GELU()
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        return super().forward(self.norm(x)) * <1>
# --- probe
from oracle_models import *
model = fill(ToyModel())
keys(model)
model(numbers(3, 4))
gradients(model, model(numbers(3, 4)))
keys(ToyMLP(size=6))
