# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        return self.act(x)
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    @edit("run")
    def one(self, x):
        with old:
            self.act(x)
        with new:
            x

    def run(self, x):
        return x
# --- error
toy/modular_toy_fast.py:8:5: PG303 run is edited here and overridden on line 14
    hint: keep one of them
