# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        return x
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def run(self, x):
        return helper(x)
# --- error
toy/modular_toy_fast.py:6:16: PG402 the name helper is bound by nothing
    hint: import or define it
