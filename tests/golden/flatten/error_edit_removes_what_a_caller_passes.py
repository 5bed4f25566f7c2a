# reason: convert checks that every call of the output still fits an edited signature
# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x, scale=1):
        return x

    def twice(self, x):
        return self.run(self.run(x), scale=2)
# --- modular toy/modular_toy_fast.py
from patchgen.edits import Old, edit

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    @edit("run")
    def no_scale(self, scale: Old): ...
# --- error
toy/modeling_toy.py:6:1: PG406 the call self.run(self.run(x), scale=2) does not fit: ToyA.run has no parameter scale
    hint: change the call, or keep the parameters that it passes
