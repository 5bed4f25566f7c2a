# expect: E PG100 toypack/modular_neo.py:6:9
# hint: keep the value in an object that is changed, such as a dictionary
# --- modeling_toy.py
SCALE = 3


class ToyBlock:
    def run(self):
        return SCALE
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def set(self, value):
        toy.SCALE += value
