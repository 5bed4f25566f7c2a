# expect: R
# classes: NeoBlock
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_neo.py
import sys
import types

sys.modules["made_up"] = types.SimpleNamespace(FLAG="on")
import made_up

from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    def run(self, flag=made_up.FLAG):
        return flag
# --- probe
NeoBlock().run()
