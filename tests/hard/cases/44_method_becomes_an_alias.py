# expect: R
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


def free(self, x):
    return x * 2


class ToyBlock(toy.ToyBlock):
    def mine(self, x):
        return x * 3

    forward = free
    other = mine
# --- probe
ToyBlock().forward(2)
ToyBlock().other(2)
