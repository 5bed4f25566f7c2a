# reason: the message names the line of the parent that reads it, also in a class that is renamed
# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        x = x + 1
        return min(x, limit)
# --- modular toy/modular_new.py
from . import modeling_toy as toy


class NewA(toy.ToyA):
    size = 2
# --- error
toy/modeling_toy.py:4:1: PG402 the name limit is bound by nothing
    hint: bind it at the top level of toy/modeling_toy.py, or override what reads it: what is bound while the program runs is not carried
