# expect: R
# classes: NeoBlock
# --- modeling_toy.py
try:
    from not_there_at_all import floor
except ImportError:
    from math import floor

if floor is None:
    from cmath import sqrt as root
else:
    from math import sqrt as root


class ToyBlock:
    def run(self):
        return floor(1.5), root(4)
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
