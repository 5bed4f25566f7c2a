# expect: E PG100 toypack/modular_toy_fast.py:1:1
# hint: import each name
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return helper(x)


def helper(x):
    return x + 1
# --- modular_toy_fast.py
from .modeling_toy import *


class NeoBlock(ToyBlock):
    def run(self, x):
        return helper(super().run(x))
