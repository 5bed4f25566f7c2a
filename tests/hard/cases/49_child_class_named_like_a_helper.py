# expect: E PG401 toypack/modular_neo.py:4:1
# hint: another name
# --- modeling_toy.py
class NeoBlock:
    """A helper that has the new name already."""


class ToyBlock:
    def run(self):
        return NeoBlock()
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
