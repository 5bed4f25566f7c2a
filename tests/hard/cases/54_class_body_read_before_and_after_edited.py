# expect: E PG403 toypack/modular_neo.py:6:1
# hint: function
# --- modeling_toy.py
LIMIT = 3


class ToyBlock:
    low = LIMIT

    def run(self):
        return self.low + 1


LIMIT = 5
# --- modular_neo.py
from . import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyBlock(toy.ToyBlock):
    high = toy.LIMIT

    @edit("run")
    def add_two(self):
        with old:
            self.low + 1
        with new:
            self.low + 2
