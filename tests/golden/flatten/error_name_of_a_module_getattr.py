# reason: a name that only the __getattr__ of the parent module gives; an import in a function stays
# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        return x


def __getattr__(name):
    if name == "LIMIT":
        return 7
    raise AttributeError(name)
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def stop(self, x):
        return toy.LIMIT + x
# --- error
toy/modeling_toy.py:6:1: PG100 `def __getattr__(name):` at the top level of a file: this is not in the language of modular files
    hint: define or import each name
