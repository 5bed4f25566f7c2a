# --- parent toy/modeling_toy.py
def scale(x):
    return x * 2


class ToyA:
    def run(self, x):
        return scale(x)
# --- parent toy/modeling_doll.py
def scale(x):
    return x * 3


class DollA:
    def run(self, x):
        return scale(x)
# --- modular toy/modular_toy_fast.py
from . import modeling_doll as doll
from . import modeling_toy as toy


def scale(x):
    return x * 4
# --- error
toy/modular_toy_fast.py:5:1: PG125 no class is declared that says whose variant this is: the file defines scale of toy.modeling_doll and scale of toy.modeling_toy anew
    hint: declare a class of the parent that is meant, with the parent's name: class A(parent.A): pass
