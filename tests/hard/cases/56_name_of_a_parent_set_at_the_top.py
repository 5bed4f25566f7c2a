# expect: E PG100 toypack/modular_neo.py:3:1
# hint: assign a value to a plain name or an item of it, such as TABLE = {**parent.TABLE, ...}
# --- modeling_toy.py
SCALE = 3


class ToyBlock:
    def run(self):
        return SCALE
# --- modular_neo.py
from . import modeling_toy as toy

toy.SCALE = 4


class ToyBlock(toy.ToyBlock):
    size = 2
