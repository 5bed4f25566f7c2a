# expect: E PG133 toypack/modeling_toy.py:7:16
# hint: table of classes
# --- modeling_toy.py
class ToyRelu:
    pass


class ToyBlock:
    def run(self, kind):
        return globals()[kind]
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
