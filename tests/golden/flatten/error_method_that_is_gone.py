# reason: a method that upstream renamed is called by code that overrides another one
# --- parent toy/modeling_toy.py
class ToyA:
    def expand(self, x):
        return x


class ToyModel:
    def __init__(self):
        self.a = ToyA()

    def prepare_mask(self, x):
        return x

    def run(self, x):
        return self.a.expand(self.prepare_mask(x))
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyModel(toy.ToyModel):
    def run(self, x):
        return self.a.expnd(self._prepare_mask(x))
# --- error
toy/modular_toy_fast.py:6:1: PG412 self._prepare_mask(...) finds no method: ToyModel has no _prepare_mask
    hint: did you mean prepare_mask?
toy/modular_toy_fast.py:6:1: PG412 self.a.expnd(...) finds no method: ToyA has no expnd
    hint: did you mean expand?
