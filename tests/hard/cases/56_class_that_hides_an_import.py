# expect: E PG100 toypack/modular_neo.py:4:1
# hint: bind it once
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_neo.py
from . import modeling_toy as toy


class toy:
    pass


class ToyBlock(toy.ToyBlock):
    pass
