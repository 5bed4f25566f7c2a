# expect: E PG230 toypack/modular_toy_fast.py:5:5
# hint: did you mean forward
# --- modeling_toy.py
class ToyBlock:
    def forward(self):
        return 1
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def foward(self):
        raise AttributeError("not needed")
