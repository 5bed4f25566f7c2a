# expect: E PG109 toypack/modular_toy_fast.py:6:16
# hint: class
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
