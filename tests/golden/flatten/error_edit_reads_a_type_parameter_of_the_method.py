# reason: T is a global of the modular file, and would be the type parameter in the method
# python: 3.12
# --- parent toy/modeling_toy.py
class ToyA:
    def run[T](self, x: T):
        return x + 1
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy

T = 10


class ToyA(toy.ToyA):
    @edit("run")
    def more(x):
        with old:
            x + 1
        with new:
            x + T
# --- error
toy/modular_toy_fast.py:14:17: PG309 T is a global here, but ToyA.run has a local T
    hint: list T among the edit's parameters if the local is meant, else use another name
