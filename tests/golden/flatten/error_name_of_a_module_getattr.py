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
toy/modular_toy_fast.py:6:16: PG103 toy.modeling_toy defines no LIMIT, which its __getattr__ may make while the program runs
    hint: name the definition that it gives, or import the name inside a function: such an import stays
