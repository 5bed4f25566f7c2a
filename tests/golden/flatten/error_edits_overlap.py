# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        y = self.act(x) + 1
        return y
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

    @edit("run")
    def two(self, x, y):
        with old:
            y = self.act(x) + 1
        with new:
            y = x
# --- error
toy/modular_toy_fast.py:8:5: PG303 the edit one changes what two changes
    hint: make one edit of both
