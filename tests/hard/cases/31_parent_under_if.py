# expect: E PG100 toypack/modeling_toy.py:1:1
# hint: a file chooses between imports alone
# --- modeling_toy.py
if True:
    class ToyBlock:
        pass
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    size = 2
