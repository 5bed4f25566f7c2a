# --- parent toy/modeling_toy.py
import math


class ToyA:
    def run(self, x):
        y = self.up(x) + self.down(self.act(self.gate(x)) * self.up(x))
        return attend(self, x, y, scale=math.sqrt(0.5), dropout=0.0 if not self.training else self.dropout)


def attend(module, x, y, scale, dropout):
    return x + y * scale * dropout
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    @edit("run")
    def without_dropout(self):
        with old:
            toy.attend(self, ..., dropout=0.5)
        with new:
            toy.attend(self, ..., dropout=0.0)
# --- error
toy/modular_toy_fast.py:9:9: PG301 `with old:` does not occur in ToyA.run
    hint: the nearest is toy/modeling_toy.py:7:16
        - attend(self, ..., dropout=0.5)
        + attend(self, x, y, scale=math.sqrt(0.5), dropout=0.0 if not self.training else self.dropout)
