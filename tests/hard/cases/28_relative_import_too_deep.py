# expect: E PG102 toypack/modular_toy_fast.py:1:27
# hint: absolutely
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_toy_fast.py
from ....elsewhere import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
