# expect: E PG133 toypack/modeling_toy.py:6:16
# hint: write the text out
# --- modeling_toy.py
"""What the blocks do."""


class ToyBlock:
    def run(self):
        return __doc__
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    pass
