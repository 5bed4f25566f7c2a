# expect: E PG100 toypack/modular_toy_fast.py:5:1
# hint: a file chooses between imports alone
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_toy_fast.py
import sys

from . import modeling_toy as toy

if sys.version_info >= (3, 8):
    class ToyBlock(toy.ToyBlock):
        size = 2
