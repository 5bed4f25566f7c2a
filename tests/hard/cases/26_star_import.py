# expect: R
# classes: NeoBlock
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return helper(x)


def helper(x):
    return x + 1
# --- modular_toy_fast.py
from .modeling_toy import *


class NeoBlock(ToyBlock):
    def run(self, x):
        return helper(super().run(x))
# --- probe
NeoBlock().run(2)
