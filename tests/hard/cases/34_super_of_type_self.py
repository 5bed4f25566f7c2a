# expect: E PG210 toypack/modular_toy_fast.py:6:16
# hint: super()
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return super(type(self), self).run(x) * 2
