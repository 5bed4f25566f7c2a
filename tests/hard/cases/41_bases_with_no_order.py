# expect: E PG107 toypack/modular_neo.py:4:1
# hint: order
# --- modeling_toy.py
class ToyA:
    pass


class ToyB(ToyA):
    pass
# --- modular_neo.py
from .modeling_toy import ToyA, ToyB


class Both(ToyA, ToyB):
    size = 2
