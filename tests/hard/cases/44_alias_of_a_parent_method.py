# expect: E PG212 toypack/modular_toy_fast.py:5:15
# hint: write the value out
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def forward(self, x):
        return x

    def other(self, x):
        return -x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    forward = toy.ToyBlock.other
# --- probe
ToyBlock().forward(2)
ToyBlock().other(2)
