# reason: a class that has the name of another one that the parent imports
# --- parent toy/modeling_toy.py
from collections import OrderedDict


class ToyA:
    def forward(self):
        return OrderedDict(a=1)
# --- modular toy/modular_toy_fast.py
from collections import OrderedDict as Base

from . import modeling_toy as toy


class OrderedDict(Base):
    size = 2


class ToyA(toy.ToyA):
    def backward(self):
        return OrderedDict(b=1)
# --- error
toy/modular_toy_fast.py:10:1: PG401 OrderedDict means toy.modular_toy_fast.OrderedDict in toy/modular_toy_fast.py and collections.OrderedDict in toy/modeling_toy.py
    hint: give OrderedDict of toy/modular_toy_fast.py another name
