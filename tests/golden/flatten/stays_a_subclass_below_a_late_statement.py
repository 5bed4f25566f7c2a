# reason: the parent's attribute is set below it, before the subclass reads it and has its own
# --- parent toy/modeling_toy.py
class ToyMLP:
    scale = 1
    size = 1


class ToyModel:
    def __init__(self):
        self.mlp = ToyMLP()


ToyMLP.scale = 3
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyMLP(toy.ToyMLP):
    double = toy.ToyMLP.scale * 2
    scale = 4
# --- error
toy/modular_toy_fast.py:5:14: PG212 a parent that is merged is named in the class body, where no class is made yet
    hint: write the value out
