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

# === arguments behind two stars keep their place
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def call(self, *args, **kwargs):
        return [args, list(kwargs.items())]

    def run(self, args, kwargs):
        return self.call(*args, <1>, **kwargs, last=<2>)
# --- oracle modeling_toy.py
class ToyBlock:
    def call(self, *args, **kwargs):
        return [args, list(kwargs.items())]

    def run(self, args, kwargs):
        return self.call(0, *args, <1>, **kwargs, last=<2>, more=<3>)
# --- modular_neo.py
from patchgen.edits import edit, new, old

from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    @edit("run")
    def pass_more(self):
        with old:
            self.call(...)
        with new:
            self.call(0, ..., more=<3>)
# --- probe
ToyBlock().run([5], {"first": 6})
