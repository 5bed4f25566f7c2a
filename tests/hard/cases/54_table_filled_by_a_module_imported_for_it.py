# expect: E PG100 toypack/modeling_toy.py:1:15
# hint: leave it out, or read what it defines
# classes: NeoBlock
# --- kinds.py
KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
# --- plugins.py
from .kinds import kind


@kind
def double(x):
    return 2 * x
# --- modeling_toy.py
from . import plugins
from .kinds import KINDS


class ToyBlock:
    def run(self):
        return sorted(KINDS)
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
