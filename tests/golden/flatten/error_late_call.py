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
toy/modeling_toy.py:6:1: PG100 `ToyMLP.table.update(b=2)` at the top level of a file: this is not in the language of modular files
    hint: assign a value to a plain name or an item of it, such as TABLE = {**parent.TABLE, ...}; what acts when it is imported belongs into a module of its own
