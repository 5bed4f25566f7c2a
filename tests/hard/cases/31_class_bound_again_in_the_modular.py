# expect: E PG100 toypack/modular_toy_fast.py:9:1
# hint: bind it once
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return x * 2


ToyBlock = staticmethod(ToyBlock)
