# expect: E PG100 toypack/modeling_toy.py:4:1
# hint: bind it once
# --- modeling_toy.py
from math import sqrt

HALF = sqrt(0.25)
from cmath import sqrt


class ToyBlock:
    def run(self):
        return HALF, sqrt(-1)
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
