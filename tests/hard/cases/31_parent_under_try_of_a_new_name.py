# expect: E PG111 toypack/modular_toy_fast.py:4:15
# hint: which class it is, is known at run time only: give the class
# classes: NeoMore
# --- modeling_toy.py
try:
    import not_there
except ImportError:
    class ToyBlock:
        kind = 'toy'
# --- modular_toy_fast.py
from . import modeling_toy as toy


class NeoMore(toy.ToyBlock):
    size = 2
# --- probe
NeoMore().kind
NeoMore.size
