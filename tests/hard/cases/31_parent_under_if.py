# expect: E PG111 toypack/modular_toy_fast.py:4:16
# hint: another name
# --- modeling_toy.py
if True:
    class ToyBlock:
        pass
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    size = 2
