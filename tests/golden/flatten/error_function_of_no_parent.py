# --- parent toy/modeling_toy.py
def scale(x):
    return x * 2


class ToyA:
    def run(self, x):
        return scale(x)
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


def scales(x):
    return x * toy.FACTOR
# --- error
toy/modular_toy_fast.py:4:1: PG125 scales takes the place of nothing in toy.modeling_toy, and the file declares no class
    hint: did you mean scale?
