# expect: E PG100 toypack/modular_neo.py:7:30
# hint: name what is needed
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_neo.py
import os

from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    folder = os.path.dirname(__file__)
