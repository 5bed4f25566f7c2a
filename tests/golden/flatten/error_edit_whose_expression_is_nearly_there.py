# --- parent toy/modeling_toy.py
import math


class ToyA:
    def run(self, x):
        y = self.up(x) + self.down(self.act(self.gate(x)) * self.up(x))
        return attend(self, x, y, scale=math.sqrt(0.5), dropout=0.0 if not self.training else self.dropout)


def attend(module, x, y, scale, dropout):
    return x + y * scale * dropout
# --- modular toy/modular_toy_fast.py
from patchgen.edits import Hole, edit, new, old

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    @edit("run")
    def a_hole_is_like_anything(self, one: Hole, other: Hole):
        with old:
            self.down(one + other)
        with new:
            self.down(one - other)
# --- error
toy/modular_toy_fast.py:9:9: PG301 `with old:` does not occur in ToyA.run
    hint: the nearest is toy/modeling_toy.py:6:26
        - self.down(one + other)
        + self.down(self.act(self.gate(x)) * self.up(x))
