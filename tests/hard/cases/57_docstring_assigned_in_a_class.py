# expect: R
# classes: ToyBlock, ToyOther
# overrides: ToyBlock, ToyOther
# --- modeling_toy.py
TEXT = "A {}."


class ToyBlock:
    __doc__ = TEXT.format("block")
    usage = __doc__


class ToyOther:
    """Another."""
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    """A new block."""

    size = 2


class ToyOther(toy.ToyOther):
    __doc__ = toy.ToyOther.__doc__ + toy.TEXT.format("new one")
    size = 3
# --- probe
[ToyBlock.__doc__, ToyBlock.usage, ToyOther.__doc__]
