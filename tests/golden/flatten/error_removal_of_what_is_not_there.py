# --- parent toy/modeling_toy.py
class ToyA:
    def forward(self):
        return 1
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def foward(self):
        raise AttributeError("not needed")
# --- error
toy/modular_toy_fast.py:5:5: PG230 foward is removed, but no class that ToyA is merged with has it
    hint: did you mean forward?
