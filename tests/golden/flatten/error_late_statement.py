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
toy/modeling_toy.py:11:1: PG100 `ToyMLP.scale = 3` at the top level of a file: this is not in the language of modular files
    hint: assign a value to a plain name or an item of it, such as TABLE = {**parent.TABLE, ...}; what acts when it is imported belongs into a module of its own
