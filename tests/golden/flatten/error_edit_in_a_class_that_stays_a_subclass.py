# reason: an edit needs a merged class, and a statement below the parent sets what the class sets itself
# --- parent toy/modeling_toy.py
class ToyMLP:
    size = 1

    def forward(self, x):
        return x * self.size


ToyMLP.size = 3
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy


class ToyMLP(toy.ToyMLP):
    size = 4

    @edit("forward")
    def add(self, x):
        with old:
            x * self.size
        with new:
            x + self.size
# --- error
toy/modular_toy_fast.py:6:1: PG126 ToyMLP edits or removes what it inherits, and has to stay a subclass: toy/modeling_toy.py:8 may change ToyMLP when it is imported: ToyMLP.size = 3
    hint: only what is merged can be edited or removed: override the whole method or attribute instead
