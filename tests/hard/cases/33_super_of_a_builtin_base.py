# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock(int):
    def run(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def bit_length(self):
        return super().bit_length() + 1

    def __add__(self, other):
        return super().__add__(other) * 2
# --- probe
ToyBlock(4).bit_length()
ToyBlock(4) + 3
