# expect: R
# classes: NeoBlock
# --- modeling_toy.py
class ToyBlock:
    """A block."""

    usage = __doc__
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    """A new block."""

    help = __doc__
# --- probe
[NeoBlock.usage, NeoBlock.help]
