# expect: R
# classes: NeoBlock
# --- modeling_toy.py
TABLE = {}
list(map(lambda pair: TABLE.update([pair]), [("a", 1), ("b", 2)]))


class ToyBlock:
    def run(self):
        return TABLE
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
