# expect: R
# classes: NeoBlock
# --- modeling_toy.py
def floor(x):
    return "own"


OLD = floor(1.5)
from math import floor


class ToyBlock:
    def run(self):
        return OLD, floor(1.5)
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
