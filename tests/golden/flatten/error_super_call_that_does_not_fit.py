# reason: a call that does not fit is quoted as its author wrote it
# --- parent toy/modeling_toy.py
class ToyA:
    def __init__(self, size):
        self.size = size

    def forward(self, x, y=2):
        return x + y
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def __init__(self, size):
        super().__init__(size, 3)

    def forward(self, x):
        return super().forward(x, 2, 3)
# --- error
toy/modular_toy_fast.py:5:1: PG406 the call super().__init__(size, 3) does not fit: ToyA.__init__ takes 1 positional arguments and gets 2
    hint: change the call, or keep the parameters that it passes
toy/modular_toy_fast.py:8:1: PG406 the call super().forward(x, 2, 3) does not fit: ToyA.forward takes 2 positional arguments and gets 3
    hint: change the call, or keep the parameters that it passes
