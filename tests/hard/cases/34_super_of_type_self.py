# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return super(type(self), self).run(x) * 2
# --- probe
ToyBlock().run(3)
