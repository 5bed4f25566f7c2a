# expect: R
# classes: NeoBlock
# --- modeling_toy.py
LIMIT = 3


class ToyBlock:
    low = LIMIT

    def run(self, high=LIMIT + 1):
        return self.low, high, LIMIT


LIMIT = 5
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
