# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
SCALE = 3


class ToyBlock:
    def run(self):
        return SCALE
# --- modular_neo.py
from . import modeling_toy as toy

toy.SCALE = 4


class ToyBlock(toy.ToyBlock):
    size = 2
# --- probe
ToyBlock().run()
