# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        return self.act(x) + 0.0
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    @edit("run")
    def another_constant(self):
        with old:
            0.1
        with new:
            0.2
# --- error
toy/modular_toy_fast.py:9:9: PG301 `with old:` does not occur in ToyA.run
    hint: the nearest is toy/modeling_toy.py:3:30
        - 0.1
        + 0.0
