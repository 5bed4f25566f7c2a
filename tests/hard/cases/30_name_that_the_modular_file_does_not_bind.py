# expect: E PG402 toypack/modular_toy_fast.py:6:16
# hint: import
# --- modeling_toy.py
def helper(x):
    return x + 1


class ToyBlock:
    def run(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return helper(x)
