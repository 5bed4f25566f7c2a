# expect: R
# classes: NeoBlock
# --- parts/__init__.py
import sys
import types


class _Lazy(types.ModuleType):
    pass


_lazy = _Lazy(__name__)
_lazy.__dict__.update(sys.modules[__name__].__dict__)
sys.modules[__name__] = _lazy
# --- parts/table.py
TABLE = {}
TABLE["a"] = 1
# --- modeling_toy.py
from .parts.table import TABLE


class ToyBlock:
    def run(self):
        return TABLE
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
