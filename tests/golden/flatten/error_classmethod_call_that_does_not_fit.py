# reason: `cls(...)` in a classmethod has to fit `__init__`
# --- parent toy/modeling_toy.py
class ToyA:
    def __init__(self, depth=1, width=2):
        self.depth = depth
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    @classmethod
    def narrow(cls):
        return cls(size=1)
# --- error
toy/modular_toy_fast.py:7:1: PG406 the call cls(size=1) does not fit: ToyA.__init__ has no parameter size
    hint: change the call, or keep the parameters that it passes
