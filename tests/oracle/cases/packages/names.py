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
