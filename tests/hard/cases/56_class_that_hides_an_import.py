# expect: E PG109 toypack/modular_neo.py:8:16
# hint: another name
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_neo.py
from . import modeling_toy as toy


class toy:
    pass


class ToyBlock(toy.ToyBlock):
    pass
