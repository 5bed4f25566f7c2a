# --- parent toy/modeling_toy.py
class ToyAttention:
    pass
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyAttention(toy.ToyAttentoin):
    size = 2
# --- error
toy/modular_toy_fast.py:4:20: PG103 toy.modeling_toy defines no ToyAttentoin
    hint: did you mean ToyAttention?
