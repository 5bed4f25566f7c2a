# Statements at module level and their order.
# The format is told in ../../packages.py.

# === registry of the class
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def m(self):
        return REGISTRY["block"] is ToyBlock, sorted(REGISTRY)


REGISTRY = {"block": ToyBlock}
# --- modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    def m(self):
        return super().m(), <1>
# --- oracle modeling_toy.py
class _Block:
    def m(self):
        return REGISTRY["block"] is ToyBlock, sorted(REGISTRY)


class ToyBlock(_Block):
    def m(self):
        return super().m(), <1>


REGISTRY = {"block": ToyBlock}
# --- oracle modular_neo.py
from .modeling_toy import ToyBlock
# --- probe
ToyBlock().m()

# === order by what class bodies need
# classes: ToyBlock, ToyLast
# overrides: ToyBlock
# --- modeling_toy.py
class ToyFirst:
    kind = "first"


class ToyBlock:
    inner = ToyFirst

    def m(self):
        return self.inner.kind


class ToyLast:
    def m(self):
        return ToyBlock().m()
# --- modular_neo.py
from . import modeling_toy as up


class Special(up.ToyLast):
    kind = "special<1>"


class ToyBlock(up.ToyBlock):
    inner = Special
# --- probe
ToyBlock().m()
ToyLast().m()
Special().m()
