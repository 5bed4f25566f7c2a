# expect: R
# classes: NeoBlock
# --- modeling_toy.py
class ToyBlock:
    def run(self):
        from .modular_neo import NeoBlock

        return NeoBlock.__name__
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    def run(self):
        return super().run() + "!"
# --- probe
NeoBlock().run()
