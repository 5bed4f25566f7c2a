# expect: R
# classes: NeoBlock
# --- two.py
def act():
    return 2
# --- modeling_toy.py
def act():
    return "own"


from .two import *


class ToyBlock:
    def run(self):
        return act()
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
