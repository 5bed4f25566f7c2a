# expect: E PG103 toypack/modular_toy_fast.py:6:16
# hint: did you mean rotate_half
# --- modeling_toy.py
def rotate_half(x):
    return x


class ToyBlock:
    pass
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return toy.rotate_hlaf(x)
