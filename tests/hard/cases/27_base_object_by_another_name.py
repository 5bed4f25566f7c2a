# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
import builtins


class ToyBlock(builtins.object):
    def run(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return super().run(x) + 1
# --- probe
ToyBlock().run(1)
