# expect: E PG215 toypack/modular_toy_fast.py:6:16
# hint: did you mean walks?
# --- modeling_toy.py
class ToyBlock:
    def walks(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def walk(self, x):
        return super().walk(x) * 2
