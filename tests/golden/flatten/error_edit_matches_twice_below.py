# --- parent toy/modeling_toy.py
import math


class ToyA:
    size = 1

    def run(self, x):
        y = self.act(x) + math.pi
        return y * self.act(x)
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    @edit("run")
    def lines_are_those_of_the_file(self, x):
        with old:
            self.act(x)
        with new:
            self.act(-x)
# --- error
toy/modular_toy_fast.py:9:9: PG301 `with old:` matches 2 times in ToyA.run, not 1: lines 8, 9
    hint: make it longer, or write count=2
