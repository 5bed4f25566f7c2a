# expect: E PG100 toypack/modular_neo.py:13:1
# hint: bind it once
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2


class NeoOther:
    pass


__all__ = ["NeoBlock"]
__all__ += ["NeoOther"]
__all__.append("LIMIT")
LIMIT = 3
