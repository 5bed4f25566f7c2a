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
toy/modular_toy_fast.py:1:15: PG100 doll is imported, and nothing reads it: this is not in the language of modular files
    hint: leave it out, or read what it defines
toy/modular_toy_fast.py:2:15: PG100 toy is imported, and nothing reads it: this is not in the language of modular files
    hint: leave it out, or read what it defines
