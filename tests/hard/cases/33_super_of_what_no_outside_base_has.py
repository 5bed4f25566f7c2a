# expect: E PG215 toypack/modular_toy_fast.py:6:16
# hint: extra_repr
# search: installed
# --- modeling_toy.py
from torch import nn


class ToyBlock(nn.Module):
    def run(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def extra_repr(self):
        return super().extra_rper()
