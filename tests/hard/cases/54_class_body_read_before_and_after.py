# expect: E PG403 toypack/modular_neo.py:4:1
# hint: function
# --- modeling_toy.py
LIMIT = 3


class ToyBlock:
    low = LIMIT


LIMIT = 5
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    high = toy.LIMIT
