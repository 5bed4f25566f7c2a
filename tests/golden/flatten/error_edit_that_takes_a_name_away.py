# reason: what an edit took away is missing in the parent's lines; the edit is named first
# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        size = x.shape[0]
        return x.view(size, -1)
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    @edit("run")
    def drop_the_size(self, x, size):
        with old:
            size = x.shape[0]
        with new:
            pass
# --- error
toy/modular_toy_fast.py:8:5: PG402 the name size is bound by nothing (at toy/modeling_toy.py:4:1)
    hint: bind it there: the parent's line that binds it is not in the output
