# Several classes, several bases, several files.
# The format is told in ../../packages.py.

# === a class of the modular file inherits another
# classes: NeoBlock, NeoWide
# overrides: ToyBlock > NeoBlock
# renames: Toy > Neo
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
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    def step(self, x):
        return super().step(x) * <1>


class NeoWide(NeoBlock):
    def step(self, x):
        y = super().step(x)
        return y + <2>
# --- probe
NeoBlock(2).step(3)
NeoWide(2).step(3)
[c.__name__ for c in NeoWide.__mro__[:2]]

# === mixin of the modular file after the parent
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def __init__(self, n=3):
        super().__init__()
        self.n = n

    def step(self, x):
        return self.helper(x) + self.n

    def describe(self):
        return "block"
# --- modular_neo.py
from . import modeling_toy as up


class Extra:
    def __init__(self):
        self.extra = <1>

    def helper(self, x):
        return x * self.extra

    def describe(self):
        return "extra"


class ToyBlock(up.ToyBlock, Extra):
    pass
# --- probe
obj = ToyBlock(2)
obj.step(3)
obj.describe()

# === modular file over a modular file
# classes: NewBlock
# --- modeling_toy.py
FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n
# --- modular_old.py
from .modeling_toy import ToyBlock


class OldBlock(ToyBlock):
    def step(self, x):
        out = super().step(x)
        return out * <1>
# --- modular_neo.py
from .modular_old import OldBlock


class NewBlock(OldBlock):
    def step(self, x):
        return super().step(x) - <2>
# --- probe
NewBlock(2).step(3)

# === parents of two modules
# classes: NeoBlock
# --- modeling_toy.py
FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n
# --- ops.py
LEVEL = <1>


class OpsMixin:
    def op(self, x):
        return x * LEVEL

    def step(self, x):
        note("mixin")
        return super().step(x)
# --- modular_neo.py
from .modeling_toy import ToyBlock
from .ops import OpsMixin


class NeoBlock(OpsMixin, ToyBlock):
    def step(self, x):
        return super().step(x) + self.op(x)
# --- probe
NeoBlock(2).step(3)

# === two parents' helpers of one name
# classes: NeoBlock
# --- modeling_toy.py
FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n
# --- ops.py
FACTOR = 1000


def shift(x):
    return x - FACTOR


class OpsMixin:
    def op(self, x):
        return shift(x) * <1>
# --- modular_neo.py
from .modeling_toy import ToyBlock
from .ops import OpsMixin


class NeoBlock(OpsMixin, ToyBlock):
    def step(self, x):
        return super().step(x) + self.op(x)
# --- probe
NeoBlock(2).step(3)

# === two variants with classes of one name
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def a(self, x):
        return x
# --- modular_a.py
from . import modeling_toy as up


class _Helper:
    size = <1>


class ToyBlock(up.ToyBlock):
    def a(self, x):
        return super().a(x) + _Helper.size
# --- modular_b.py
from . import modeling_toy as up


class _Helper:
    size = 10


class ToyBlock(up.ToyBlock):
    def a(self, x):
        return super().a(x) * _Helper().size
# --- modular_neo.py
from .modular_a import ToyBlock as A
from .modular_b import ToyBlock as B


class ToyBlock(A, B):
    pass
# --- probe
ToyBlock().a(1)

# === two variants with copies of one helper
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def a(self, x):
        return x

    def b(self, x):
        return x
# --- modular_a.py
from . import modeling_toy as up

_BY = 10


def _scale(x):
    return x * _BY


class ToyBlock(up.ToyBlock):
    def a(self, x):
        return _scale(x)
# --- modular_b.py
from . import modeling_toy as up

_BY = 10


def _scale(x):
    return x * _BY


class ToyBlock(up.ToyBlock):
    def b(self, x):
        return _scale(x) + <1>
# --- modular_neo.py
from .modular_a import ToyBlock as A
from .modular_b import ToyBlock as B


class ToyBlock(A, B):
    pass
# --- probe
ToyBlock().a(1)
ToyBlock().b(1)
