# expect: E PG103 toypack/modular_toy_fast.py:1:37
# hint: did you mean rotate_half?
# --- modeling_toy.py
def rotate_half(x):
    return x


class ToyBlock:
    pass
# --- modular_toy_fast.py
from .modeling_toy import ToyBlock, rotate_hlaf


class NeoBlock(ToyBlock):
    def run(self, x):
        return rotate_hlaf(x)
