# expect: R
# classes: NeoBlock
# --- modeling_toy.py
TABLE = {}
VIEW = TABLE
VIEW["a"] = 1
for table in (TABLE, {}):
    table["b"] = 2
_held = TABLE.setdefault("c", 3)
with_default = TABLE.get
with_default("d")


class ToyBlock:
    def run(self):
        return sorted(TABLE)
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
