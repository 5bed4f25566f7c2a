# expect: E PG100 toypack/modular_neo.py:7:12
# hint: name what is needed
# --- modeling_toy.py
class ToyBlock:
    """A block."""

    usage = __doc__
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    """A new block."""

    help = __doc__
