# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        y = self.act(x)
        return self.act(x) + y
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    @edit("run")
    def other(self, x):
        with old:
            self.act(x)
        with new:
            x
# --- error
toy/modular_toy_fast.py:9:9: PG301 `with old:` matches 2 times in ToyA.run, not 1: lines 3, 4
    hint: make it longer, or write count=2
