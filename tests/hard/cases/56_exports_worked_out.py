# expect: E PG100 toypack/modular_neo.py:8:1
# hint: write a list of strings
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2


__all__ = [name for name in ("NeoBlock",)]
