# expect: E PG100 toypack/modeling_toy.py:3:9
# hint: import it at the top level, without a condition
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
