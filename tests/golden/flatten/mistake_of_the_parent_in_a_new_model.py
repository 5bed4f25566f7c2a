# reason: what is as wrong in the parent is not for the author of a new model to repair
# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        return self.rnu(x), helper(x, 2)


def helper(x):
    return x
# --- modular toy/modular_new.py
from . import modeling_toy as toy


class NewA(toy.ToyA):
    size = 2
# --- flat modeling_new.py: NewA
# defines helper, NewA


class NewA:
    size = 2

    def run(self, x):
        return self.rnu(x), helper(x, 2)
