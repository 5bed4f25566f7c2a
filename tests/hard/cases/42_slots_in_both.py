# expect: E PG100 toypack/modeling_toy.py:2:5
# hint: write a class that does without it
# --- modeling_toy.py
class ToyBlock:
    __slots__ = ("a",)
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    __slots__ = ("b",)
