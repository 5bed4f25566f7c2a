# expect: R
# classes: FirstBlock
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return x
# --- modular_second.py
from . import modular_neo
from .modeling_toy import ToyBlock


class SecondBlock(ToyBlock):
    def run(self, x):
        return super().run(x) + 1

    def first(self):
        return modular_neo.FirstBlock
# --- modular_neo.py
from . import modular_second


class FirstBlock(modular_second.SecondBlock):
    def run(self, x):
        return super().run(x) * 2
# --- probe
FirstBlock().run(3)
