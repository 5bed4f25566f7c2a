# --- parent toy/modeling_toy.py
class ToyA:
    pass


class ToyB(ToyA):
    pass
# --- modular toy/modular_neo.py
from .modeling_toy import ToyA, ToyB


class Both(ToyA, ToyB):
    size = 2
# --- error
toy/modular_neo.py:4:1: PG107 the bases ToyA, ToyB have no consistent method resolution order
    hint: change the order of the bases; Python refuses this one
