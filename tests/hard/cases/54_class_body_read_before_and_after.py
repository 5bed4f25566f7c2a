# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
LIMIT = 3


class ToyBlock:
    low = LIMIT


LIMIT = 5
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    high = toy.LIMIT
# --- probe
ToyBlock.low, ToyBlock.high
