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
toy/modeling_toy.py:8:1: PG100 `ToyMLP.size = 3` at the top level of a file: this is not in the language of modular files
    hint: assign a value to a plain name or an item of it, such as TABLE = {**parent.TABLE, ...}; what acts when it is imported belongs into a module of its own
