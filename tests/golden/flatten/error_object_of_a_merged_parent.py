# reason: the class takes the parent's place; as a base, a type or a check it may be named
# --- parent toy/modeling_toy.py
class ToyMLP:
    def forward(self, x):
        return x
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyMLP(toy.ToyMLP):
    def forward(self, x: toy.ToyMLP):
        return isinstance(x, toy.ToyMLP) and super().forward(x)


def make():
    return toy.ToyMLP()


KIND = toy.ToyMLP
# --- error
toy/modular_toy_fast.py:10:12: PG117 toy.modeling_toy.ToyMLP is used here, but in the flat file ToyMLP is the one that this modular file declares
    hint: write ToyMLP for the new one, or give the new one another name
