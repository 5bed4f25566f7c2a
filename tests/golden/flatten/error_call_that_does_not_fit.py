# reason: a call that no longer fits the signature is refused
# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        return x


class ToyModel:
    def __init__(self):
        self.a = ToyA()

    def run(self, x):
        return ToyA().run(x), helper(x, 2)


def helper(x, y):
    return x + y
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    size = 2


def helper(x):
    return x
# --- error
toy/modular_toy_fast.py:8:1: PG406 the call helper(x, 2) does not fit: helper takes 1 positional arguments and gets 2 (at toy/modeling_toy.py:11:1)
    hint: change the call, or keep the parameters that it passes
