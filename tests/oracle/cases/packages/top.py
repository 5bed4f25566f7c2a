# Statements at module level and their order.
# The format is told in ../../packages.py.

# === statement about the class below it
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    size = 1

    def m(self):
        return self.size, self.other


ToyBlock.other = <1>
# --- modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    size = <2>
# --- probe
ToyBlock().m()

# === statement that the child's member hides
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    size = 1

    def m(self):
        return self.size


ToyBlock.size = <1>
# --- modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    size = <2> + 20
# --- probe
ToyBlock().m()

# === registry of the class
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def m(self):
        return REGISTRY["block"] is ToyBlock, sorted(REGISTRY)


REGISTRY = {"block": ToyBlock}
# --- modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    def m(self):
        return super().m(), <1>
# --- oracle modeling_toy.py
class _Block:
    def m(self):
        return REGISTRY["block"] is ToyBlock, sorted(REGISTRY)


class ToyBlock(_Block):
    def m(self):
        return super().m(), <1>


REGISTRY = {"block": ToyBlock}
# --- oracle modular_neo.py
from .modeling_toy import ToyBlock
# --- probe
ToyBlock().m()

# === helper classes of the modular file
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n
# --- modular_neo.py
from . import modeling_toy as up


class Gate:
    scale = <1>

    def __call__(self, x):
        return x * self.scale


DEFAULT = Gate()


class ToyBlock(up.ToyBlock):
    gate = DEFAULT

    def step(self, x, gate=DEFAULT):
        return gate(super().step(x)) + Later.size


class Later:
    size = <2>
# --- probe
ToyBlock().step(1)
Later.size

# === order by what class bodies need
# classes: ToyBlock, ToyLast
# overrides: ToyBlock
# --- modeling_toy.py
class ToyFirst:
    kind = "first"


class ToyBlock:
    inner = ToyFirst

    def m(self):
        return self.inner.kind


class ToyLast:
    def m(self):
        return ToyBlock().m()
# --- modular_neo.py
from . import modeling_toy as up


class Special(up.ToyLast):
    kind = "special<1>"


class ToyBlock(up.ToyBlock):
    inner = Special
# --- probe
ToyBlock().m()
ToyLast().m()
Special().m()
