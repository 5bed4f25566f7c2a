# reason: the parent's table is filled below it, before the subclass reads it and has its own
# --- parent toy/modeling_toy.py
class ToyMLP:
    table = {"a": 1}
    size = 1


ToyMLP.table.update(b=2)
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyMLP(toy.ToyMLP):
    table = {**toy.ToyMLP.table, "c": 3}
# --- error
toy/modular_toy_fast.py:5:16: PG212 a parent that is merged is named in the class body, where no class is made yet
    hint: write the value out
