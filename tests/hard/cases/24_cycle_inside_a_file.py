# expect: E PG106 toypack/modeling_toy.py:5:16
# hint: base
# --- modeling_toy.py
class ToyBlock(ToyOther):
    pass


class ToyOther(ToyBlock):
    pass
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    size = 2
