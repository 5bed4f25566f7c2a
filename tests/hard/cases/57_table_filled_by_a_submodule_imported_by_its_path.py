# expect: R
# classes: NeoBlock
# --- parts/__init__.py
# --- parts/table.py
ORDER = []
# --- parts/wide.py
from . import table

table.ORDER.append("wide")
# --- modeling_toy.py
import toypack.parts.table
import toypack.parts.wide


class ToyBlock:
    def run(self):
        return toypack.parts.table.ORDER
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
