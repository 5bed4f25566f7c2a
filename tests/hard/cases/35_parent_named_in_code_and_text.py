# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    """A ToyBlock."""

    def same(self, other: "ToyBlock") -> bool:
        return isinstance(other, ToyBlock)
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def link(self, other: toy.ToyBlock, more: "toy.ToyBlock | None" = None):
        """Link to a toy.ToyBlock."""
        return self.same(other), isinstance(other, ToyBlock)
# --- probe
ToyBlock().link(ToyBlock())
ToyBlock().link(3)
