# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    __slots__ = ("a",)
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    __slots__ = ("b",)
# --- probe
obj = ToyBlock()
obj.a = 1
obj.b = 2
obj.c = 3
hasattr(obj, "__dict__")
