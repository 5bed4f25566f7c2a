# expect: E PG100 toypack/modular_toy_fast.py:6:16
# hint: write super(), or Parent.method(self, ...)
# --- modeling_toy.py
class ToyRoot:
    def run(self, x):
        return x


class ToyBlock(ToyRoot):
    def run(self, x):
        return super().run(x) + 10
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return super(toy.ToyBlock, self).run(x) * 2
