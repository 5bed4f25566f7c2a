# expect: R
# search: installed
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
from collections import abc

from torch import nn


class ToyBlock(nn.Module):
    def run(self, x):
        return x


class ToyNames(abc.Mapping):
    def __init__(self, names):
        self.names = names

    def __getitem__(self, name):
        return self.names[name]

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def __init__(self):
        super().__init__()
        super().register_buffer("seen", None)

    def extra_repr(self):
        return super().extra_repr() + "fast"

    def __dir__(self):
        return [name for name in super().__dir__() if name == "seen"]

    def __reduce__(self):
        return super().__reduce__()[:1]


class ToyNames(toy.ToyNames):
    def get(self, name, default=0):
        return super().get(name, default)
# --- probe
repr(ToyBlock())
dir(ToyBlock())
len(ToyBlock().__reduce__())
ToyNames({"a": 1}).get("b")
