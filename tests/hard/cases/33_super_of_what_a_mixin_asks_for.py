# expect: E PG215 toypack/modular_toy_fast.py:6:16
# hint: did you mean run?
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class Twice:
    def rnu(self, x):
        return super().rnu(x) * 2


class ToyBlock(Twice, toy.ToyBlock):
    pass
