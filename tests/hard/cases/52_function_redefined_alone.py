# expect: R
# classes: ToyBlock
# overrides: scale
# --- modeling_toy.py
LIMIT = 10


def scale(x):
    return x * 2


class ToyBlock:
    def run(self, x):
        return scale(min(x, LIMIT))
# --- modular_toy_fast.py
from . import modeling_toy as toy


def scale(x):
    return x * 3 + toy.LIMIT
# --- probe
ToyBlock().run(4)
ToyBlock().run(40)
