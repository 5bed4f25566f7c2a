# expect: E PG101 toypack/modular_toy_fast.py:4:16
# hint: did you mean modeling_toy
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_toy_fast.py
from .modeling_tooy import ToyBlock as Block


class ToyBlock(Block):
    size = 2
