# Names: imports, aliases, strings, and what a name means in two files.
# The format is told in ../../packages.py.

# === parent's function under an alias
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
from .modeling_toy import FACTOR as LEVEL, shift as move


class ToyBlock(up.ToyBlock):
    def step(self, x):
        shift = <1>
        return move(x) + super().step(x) + LEVEL + shift + up.shift(x) + up.FACTOR
# --- probe
ToyBlock().step(1)

# === guarded imports
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
try:
    import not_there_at_all
except ImportError:
    not_there_at_all = None


def shift(x):
    return x + <1> if not_there_at_all is None else not_there_at_all.shift(x)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n
# --- modular_neo.py
from . import modeling_toy as up

try:
    from not_there_at_all import fast
except ImportError:
    fast = None


class ToyBlock(up.ToyBlock):
    def step(self, x):
        return super().step(x) if fast is None else fast(x)
# --- probe
ToyBlock().step(1)

# === parent imports from a sibling
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
from .ops import LEVEL, Helper, helper as aid


class ToyBlock(Helper):
    def m(self, x):
        return aid(x) + LEVEL
# --- ops.py
LEVEL = <1>


def helper(x):
    return x + LEVEL


class Helper:
    def base(self):
        return helper(<2>)
# --- modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    def m(self, x):
        return super().m(x) + self.base()
# --- probe
ToyBlock().m(1)

# === parent through the package
# classes: NeoBlock
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
# --- __init__.py
from .modeling_toy import ToyBlock as Renamed
# --- modular_neo.py
from toypack import Renamed


class NeoBlock(Renamed):
    def step(self, x):
        return super().step(x) + <1>
# --- probe
NeoBlock().step(1)

# === TYPE_CHECKING
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from not_there_at_all import Shape


class ToyBlock:
    def m(self, x: "Shape") -> "Shape":
        return x
# --- modular_neo.py
from typing import TYPE_CHECKING

from . import modeling_toy as up

if TYPE_CHECKING:
    from not_there_either import Form


class ToyBlock(up.ToyBlock):
    def m(self, x: "Form") -> "Form":
        return super().m(x) + <1>
# --- probe
ToyBlock().m(1)

# === strings that name renamed classes
# classes: NeoBlock
# overrides: ToyBlock > NeoBlock
# renames: Toy > Neo
# --- modeling_toy.py
class ToyLayer:
    pass


class ToyBlock:
    _no_split_modules = ["ToyLayer", "ToyBlock", "Other"]
    note = "ToyLayers and Toy"

    def m(self) -> "ToyLayer":
        return ToyLayer(), self._no_split_modules, self.note
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    pass
# --- probe
made, names, text = NeoBlock().m()
type(made).__name__
[name.replace('Toy', 'Neo') for name in names]
text.startswith('ToyLayers and Toy')

# === names that hold other names
# classes: ToyBlock, MyToyBlock, ToyBlockToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def m(self):
        return "block"


class ToyBlockToyBlock:
    def m(self):
        return "double"


class MyToyBlock(ToyBlock):
    def m(self):
        return "my", super().m(), ToyBlockToyBlock().m()
# --- modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    def m(self):
        return super().m() + "<1>"
# --- probe
ToyBlock().m()
MyToyBlock().m()
ToyBlockToyBlock().m()

# === new model: reached classes follow
# classes: NeoMLP, NeoModel
# overrides: ToyMLP > NeoMLP, ToyModel > NeoModel
# renames: Toy > Neo
# --- modeling_toy.py
class ToyNorm:
    def run(self, x):
        return x + 1


class ToyMLP:
    def __init__(self):
        self.norm = ToyNorm()

    def run(self, x):
        return self.norm.run(x) * 2


class ToyModel:
    def __init__(self):
        self.mlp = ToyMLP()

    def run(self, x):
        return self.mlp.run(x), type(self.mlp).__name__, type(self.mlp.norm).__name__
# --- modular_neo.py
from .modeling_toy import ToyMLP, ToyModel


class NeoMLP(ToyMLP):
    def run(self, x):
        return super().run(x) + <1>


class NeoModel(ToyModel):
    pass
# --- probe
NeoModel().run(1)
NeoMLP().run(1)

# === __all__
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
__all__ = ['ToyBlock', 'helper']


FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n


def helper(x):
    return shift(x)
# --- modular_neo.py
from . import modeling_toy as up

__all__ = ["ToyBlock", "other"]


def other(x):
    return x + <1>


class ToyBlock(up.ToyBlock):
    def step(self, x):
        return super().step(x) + other(x)
# --- probe
ToyBlock().step(1)
helper(2)
other(3)

# === what the parent imports, as its attribute
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
import json
from json import dumps


class ToyBlock:
    def run(self, x):
        return dumps(x)
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return super().run(x), toy.json.dumps(x), toy.dumps([x])
# --- probe
ToyBlock().run(1)
