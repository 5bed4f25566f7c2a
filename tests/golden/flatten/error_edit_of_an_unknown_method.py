# --- parent toy/modeling_toy.py
class ToyA:
    def forward(self, x):
        return self.act(x)
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    @edit("foward")
    def one(self, x):
        with old:
            self.act(x)
        with new:
            x
# --- error
toy/modular_toy_fast.py:7:11: PG304 no class that ToyA is merged with has a method foward
    hint: did you mean forward?
