# expect: R
# classes: NeoMore
# --- modeling_toy.py
if True:
    class ToyBlock:
        kind = 'toy'
# --- modular_toy_fast.py
from . import modeling_toy as toy


class NeoMore(toy.ToyBlock):
    size = 2
# --- probe
NeoMore().kind
NeoMore.size
