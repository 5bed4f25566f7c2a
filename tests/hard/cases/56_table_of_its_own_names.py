# expect: E PG100 toypack/modeling_toy.py:7:16
# hint: name what is needed
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
