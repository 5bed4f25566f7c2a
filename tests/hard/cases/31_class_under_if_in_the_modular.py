# expect: E PG111 toypack/modular_toy_fast.py:6:20
# hint: top level
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_toy_fast.py
import sys

from . import modeling_toy as toy

if sys.version_info >= (3, 8):
    class ToyBlock(toy.ToyBlock):
        size = 2
