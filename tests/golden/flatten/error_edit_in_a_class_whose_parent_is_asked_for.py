# reason: an edit needs a merged class, and isinstance would not find its parent any more
# --- parent toy/modeling_toy.py
class ToyMLP:
    def forward(self, x):
        return x * 2


class ToyModel:
    def __init__(self):
        self.mlp = ToyMLP()

    def is_small(self):
        return isinstance(self.mlp, (ToyMLP, dict))
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy


class ToyFastMLP(toy.ToyMLP):
    @edit("forward")
    def add(self, x):
        with old:
            x * 2
        with new:
            x + 2


class ToyModel(toy.ToyModel):
    def __init__(self):
        self.mlp = ToyFastMLP()
# --- error
toy/modular_toy_fast.py:15:1: PG119 ToyModel asks for toy.modeling_toy.ToyMLP, which is merged into ToyFastMLP
    hint: ToyFastMLP would be its subclass if it did not edit or remove what it inherits
