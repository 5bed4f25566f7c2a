# expect: E PG100 toypack/helpers.py:9:2
# hint: write out what it does
# classes: NeoBlock
# --- helpers.py
KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
    return function


@kind
def _double(x):
    return 2 * x


KINDS.update(half=lambda x: x / 2)
# --- modeling_toy.py
from .helpers import KINDS


class ToyBlock:
    def run(self):
        return sorted(KINDS)
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
