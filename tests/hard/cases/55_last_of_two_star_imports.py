# expect: R
# classes: NeoBlock
# --- one.py
def act():
    return 1


def only():
    return 1
# --- two.py
def act():
    return 2
# --- modeling_toy.py
from .one import *
from .two import *


class ToyBlock:
    def run(self):
        return act(), only()
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
