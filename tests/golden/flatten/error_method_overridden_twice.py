# --- parent toy/modeling_toy.py
class ToyA:
    def run(self):
        return 1
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def run(self):
        return 2

    def run(self):
        return 3
# --- error
toy/modular_toy_fast.py:8:5: PG100 ToyA.run is defined twice: this is not in the language of modular files
    hint: keep one of them
