# --- parent toy/modeling_toy.py
class ToyA:
    def run(self):
        return 1
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def run(self):
        return 2


class ToyA(toy.ToyA):
    def run(self):
        return 3
# --- error
toy/modular_toy_fast.py:9:1: PG100 ToyA is bound here and on line 4: this is not in the language of modular files
    hint: bind it once; import what it takes the place of under another name
