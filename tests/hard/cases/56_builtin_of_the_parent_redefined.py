# expect: E PG401 toypack/modular_neo.py:4:1
# hint: another name
# --- modeling_toy.py
class ToyBlock:
    def run(self):
        return max(1, 2)
# --- modular_neo.py
from .modeling_toy import ToyBlock


def max(a, b):
    return "own"


class NeoBlock(ToyBlock):
    def own(self):
        return max(1, 2)
