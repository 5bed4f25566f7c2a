# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def run(self):
        return type(type(self)).__name__
# --- modular_toy_fast.py
from abc import ABCMeta

from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock, metaclass=ABCMeta):
    def run(self):
        return super().run() + "!"
# --- probe
ToyBlock().run()
