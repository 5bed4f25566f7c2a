# expect: R
# classes: ToyBlock ToyBoth
# overrides: ToyBlock
# --- modeling_toy.py
class ToyWalker:
    def walk(self, x):
        return x + 1


class ToyBlock:
    def run(self, x):
        return x


class ToyBoth(ToyBlock, ToyWalker):
    pass
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def walk(self, x):
        return super().walk(x) * 2
# --- probe
ToyBoth().walk(3)
ToyBlock().walk(3)
