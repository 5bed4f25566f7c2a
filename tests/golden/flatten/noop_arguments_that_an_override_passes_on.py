# reason: an argument that only `**kwargs` takes is not lost where it is passed on, or where the parent ignores it
# --- parent toy/modeling_toy.py
from torch import nn


class ToyA:
    def forward(self, x, cache=None, size=None, **kwargs):
        return cache.update(x)


class ToyModel:
    def __init__(self):
        self.a = ToyA()

    def forward(self, x, cache):
        return self.a(x, cache=cache, size=2)
# --- modular toy/modular_toy_fast.py
from torch import nn

from . import modeling_toy as toy


class Inner(nn.Module):
    def forward(self, x, cache):
        return cache.update(x)


class ToyA(toy.ToyA):
    def __init__(self):
        self.inner = Inner()

    def forward(self, x, **kwargs):
        return self.inner(x, **kwargs)
# --- flat modeling_toy_fast.py: ToyA
# defines Inner, ToyA, ToyModel


class ToyA:
    def forward(self, x, **kwargs):
        return self.inner(x, **kwargs)

    def __init__(self):
        self.inner = Inner()
