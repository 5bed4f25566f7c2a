# expect: E PG100 toypack/modeling_toy.py:6:15
# hint: write the attribute out in the class, or override the whole method
# --- modeling_toy.py
size = 100


class ToyBlock:
    size = 3
    double = (half := size) * 2
    sizes = [i for i in range(size)]
    seen = [size for _ in range(2)]

    def run(self):
        return self.double, self.half, self.sizes, self.seen
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    triple = (third := 5) * 3
    seen = [third_ for third_ in (1, 2)]
