# expect: E PG106 toypack/modular_other.py:4:13
# hint: base
# --- modular_other.py
from .modular_toy_fast import ToyBlock


class Other(ToyBlock):
    pass
# --- modular_toy_fast.py
from .modular_other import Other


class ToyBlock(Other):
    size = 2
