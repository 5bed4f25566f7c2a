# expect: E PG111 toypack/modular_toy_fast.py:4:16
# hint: another name
# --- modeling_toy.py
try:
    import not_there
except ImportError:
    class ToyBlock:
        pass
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    size = 2
