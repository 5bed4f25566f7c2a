# before: 3.12
# expect: E PG006 toypack/modular_toy_fast.py:4:15
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock[T](toy.ToyBlock):
    size = 2
