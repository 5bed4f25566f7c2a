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
    def other(self, x, y):
        with old:
            y = self.act(x) + 2
        with new:
            y = self.act(x)
# --- error
toy/modular_toy_fast.py:9:9: PG301 `with old:` does not occur in ToyA.run
    hint: the nearest is toy/modeling_toy.py:3:9
        - y = self.act(x) + 2
        + y = self.act(x) + 1
