# expect: E PG106 toypack/modeling_other.py:4:13
# hint: base
# --- modeling_toy.py
from .modeling_other import Other


class ToyBlock(Other):
    pass
# --- modeling_other.py
from .modeling_toy import ToyBlock


class Other(ToyBlock):
    pass
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    size = 2
