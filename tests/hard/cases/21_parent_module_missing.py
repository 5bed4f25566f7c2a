# expect: E PG101 toypack/modular_toy_fast.py:4:16
# hint: did you mean modeling_toy
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_toy_fast.py
from . import modelling_toy as toy


class ToyBlock(toy.ToyBlock):
    size = 2
