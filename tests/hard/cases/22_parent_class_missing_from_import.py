# expect: E PG103 toypack/modular_toy_fast.py:4:20
# hint: did you mean ToyAttention
# --- modeling_toy.py
class ToyAttention:
    pass
# --- modular_toy_fast.py
from .modeling_toy import ToyAttentoin


class NeoAttention(ToyAttentoin):
    size = 2
