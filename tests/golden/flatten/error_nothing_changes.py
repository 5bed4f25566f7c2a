# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        return x
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    pass
# --- error
toy/modular_toy_fast.py:4:1: PG408 the generated code equals its parent's
    hint: declare what the variant changes, or delete the modular file
