# --- parent toy/modeling_toy.py
class ToyA:
    def run(self):
        return 1
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def run(self):
        return 2

    run = AttributeError()
# --- error
toy/modular_toy_fast.py:8:5: PG303 run is removed here and bound on line 5
    hint: keep one of them
