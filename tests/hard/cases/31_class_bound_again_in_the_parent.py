# expect: E PG109 toypack/modular_toy_fast.py:4:16
# hint: class
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
