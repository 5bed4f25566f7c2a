# expect: E PG100 toypack/modeling_toy.py:1:1
# hint: assign a value to a plain name or an item of it, such as TABLE = {**parent.TABLE, ...}
# --- modeling_toy.py
exec("LIMIT = 5")
SIZE = LIMIT + 1


class ToyBlock:
    def run(self):
        return SIZE
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
