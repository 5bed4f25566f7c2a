# reason: a function named like a builtin that the parent's code reads would hide it there
# --- parent toy/modeling_toy.py
class ToyA:
    def forward(self, xs):
        return sum(xs)
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


def sum(xs):
    return 0


class ToyA(toy.ToyA):
    def backward(self, xs):
        return sum(xs)
# --- error
toy/modular_toy_fast.py:4:1: PG401 sum would hide the builtin, which toy/modeling_toy.py:3 reads
    hint: give sum another name
