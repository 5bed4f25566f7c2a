# expect: E PG116 toypack/modeling_toy.py:1:18
# hint: import pow by its name
# --- modeling_toy.py
from math import *


class ToyBlock:
    def run(self):
        return pow(2, 3)
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
