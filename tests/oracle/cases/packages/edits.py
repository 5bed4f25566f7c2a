# Edits inside a method; the oracle reads the parent with the edit made.
# The format is told in ../../packages.py.

# === edit with a hole
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x, k=1):
        y = shift(x * (k + 2))
        return y + self.n
# --- modular_neo.py
from patchgen.edits import Hole, edit, new, old

from . import modeling_toy as up
from .modeling_toy import shift


class ToyBlock(up.ToyBlock):
    @edit("step")
    def bound(self, v: Hole):
        with old:
            shift(v)
        with new:
            -shift(max(v, <1>))
# --- oracle modeling_toy.py
FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x, k=1):
        y = -shift(max(x * (k + 2), <1>))
        return y + self.n
# --- oracle modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    pass
# --- probe
ToyBlock(2).step(1)
