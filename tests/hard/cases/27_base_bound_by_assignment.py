# expect: R
# classes: NeoBlock
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return x
# --- modular_toy_fast.py
from . import modeling_toy as toy

Base = toy.ToyBlock


class NeoBlock(Base):
    def run(self, x):
        return super().run(x) + 1
# --- probe
NeoBlock().run(3)
[base.__name__ for base in NeoBlock.__mro__[1:2]]
