# expect: E PG100 toypack/modeling_toy.py:6:1
# hint: bind it once
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return x


ToyBlock = type("ToyBlock", (ToyBlock,), {})
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return x * 2
