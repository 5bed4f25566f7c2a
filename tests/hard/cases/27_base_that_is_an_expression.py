# expect: E PG105 toypack/modular_toy_fast.py:4:16
# hint: name
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(type("Mixin", (), {}), toy.ToyBlock):
    pass
