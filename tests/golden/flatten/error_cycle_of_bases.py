# --- parent toy/modeling_toy.py
from .modeling_other import Other


class ToyA(Other):
    pass
# --- parent toy/modeling_other.py
from .modeling_toy import ToyA


class Other(ToyA):
    pass
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    size = 2
# --- error
toy/modular_toy_fast.py:1:1: PG106 a class inherits from itself: toy.modeling_toy.ToyA -> toy.modeling_other.Other -> toy.modeling_toy.ToyA (at toy/modeling_other.py:4:13)
    hint: take one base out of the cycle
