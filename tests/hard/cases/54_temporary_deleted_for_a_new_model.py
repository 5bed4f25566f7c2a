# expect: R
# classes: NeoBlock
# --- modeling_toy.py
_size = 3
_wide = _size * 2


class ToyBlock:
    low = _wide

    def run(self):
        return self.low


del _size, _wide
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
