# expect: E PG100 toypack/modeling_toy.py:1:1
# hint: import each name
# --- modeling_toy.py
from math import *


class ToyBlock:
    def run(self, x):
        return floor(x)
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return super().run(x) + 1
