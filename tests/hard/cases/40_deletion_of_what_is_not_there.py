# expect: E PG232 toypack/modular_toy_fast.py:7:9
# hint: did you mean
# --- modeling_toy.py
class ToyBlock:
    def __init__(self):
        self.size = 1
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def __init__(self):
        super().__init__()
        del self.sise
