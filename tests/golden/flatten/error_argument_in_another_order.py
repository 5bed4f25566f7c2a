# reason: the caller passes by position, and the override has the parent's parameters in another order
# --- parent toy/modeling_toy.py
class ToyA:
    def forward(self, x, mask):
        return x * mask


class ToyB:
    def forward(self, x, mask):
        return x - mask


class ToyModel:
    def __init__(self):
        self.a = ToyA()
        self.b = ToyB()

    def forward(self, x, mask):
        return self.b(self.a(x, mask), mask)
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def forward(self, mask, x):
        return super().forward(x=x, mask=mask) * 2


class ToyB(toy.ToyB):
    def forward(self, states, mask):
        return states + mask
# --- error
toy/modular_toy_fast.py:5:5: PG413 ToyA.forward takes mask where its caller at toy/modeling_toy.py:17:1 passes x: the parameters of toy.modeling_toy.ToyA.forward have another order
    hint: give x the place that it has there
