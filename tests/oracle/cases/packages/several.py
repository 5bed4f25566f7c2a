# Several classes, several bases, several files.
# The format is told in ../../packages.py.

# === two classes, one uses the other
# classes: ToyBlock, ToyModel
# overrides: ToyBlock, ToyModel
# --- modeling_toy.py
FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n


class ToyModel(ToyBlock):
    def make(self):
        return ToyBlock(2).step(1) + self.step(2)
# --- modular_neo.py
from . import modeling_toy as up


class ToyModel(up.ToyModel):
    def make(self):
        return super().make() + <1>


class ToyBlock(up.ToyBlock):
    def step(self, x):
        return super().step(x) * <2>
# --- probe
ToyModel().make()
ToyBlock().step(2)

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

# === mixin of the modular file before the parent
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


class Traced:
    def step(self, x):
        note("traced", x)
        return super().step(x)


class ToyBlock(Traced, up.ToyBlock):
    def step(self, x):
        return super().step(x) + <1>
# --- probe
ToyBlock(2).step(3)

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

# === diamond
# classes: ToyBlock, ToyLeft, ToyRight
# overrides: ToyBlock
# --- modeling_toy.py
class ToyRoot:
    def run(self):
        return ["root"]


class ToyLeft(ToyRoot):
    def run(self):
        return ["left", *super().run()]


class ToyRight(ToyRoot):
    def run(self):
        return ["right", *super().run()]


class ToyBlock(ToyLeft, ToyRight):
    def run(self):
        return ["block", *super().run()]
# --- modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    def run(self):
        return ["child", *super().run()]
# --- probe
ToyBlock().run()
up_left = ToyLeft().run()

# === two parents of one module
# classes: Both
# --- modeling_toy.py
class ToyLeft:
    def __init__(self, n=1):
        self.left = n

    def run(self):
        return ["left"]


class ToyRight:
    def __init__(self, n=2):
        self.right = n

    def run(self):
        return ["right"]

    def only(self):
        return <1>
# --- modular_neo.py
from .modeling_toy import ToyLeft, ToyRight


class Both(ToyLeft, ToyRight):
    def __init__(self, n=5):
        ToyLeft.__init__(self, n)
        ToyRight.__init__(self, n + 1)

    def run(self):
        return [*super().run(), *ToyRight.run(self)]
# --- probe
obj = Both()
obj.run()
obj.only()

# === kept mixin behind
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def __init__(self, n=3):
        super().__init__()
        self.n = n

    def describe(self):
        return f"toy {super().describe()}"
# --- modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock, Loud, Module):
    def describe(self):
        return f"child <1> {super().describe()}"
# --- probe
obj = ToyBlock(2)
obj.describe()
obj.loud
obj.ready

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
