# expect: R
# classes: NeoBlock
# --- parts/__init__.py
from . import wide, narrow
# --- parts/table.py
ORDER = []
# --- parts/narrow.py
from .table import ORDER

ORDER.append("narrow")
# --- parts/wide.py
from .table import ORDER

ORDER.append("wide")
# --- modeling_toy.py
from .parts.table import ORDER


class ToyBlock:
    def run(self):
        return ORDER
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
