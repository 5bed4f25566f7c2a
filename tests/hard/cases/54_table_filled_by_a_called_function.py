# expect: E PG100 toypack/modeling_toy.py:10:1
# hint: assign a value to a plain name or an item of it, such as TABLE = {**parent.TABLE, ...}
# --- modeling_toy.py
TABLE = {}
OTHER = {}


def _fill(table):
    table["a"] = 1
    OTHER["b"] = 2


_fill(TABLE)


class ToyBlock:
    def run(self):
        return sorted(TABLE), sorted(OTHER)
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
