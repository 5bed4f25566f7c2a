# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from not_there import Shape

__all__ = ["ToyBlock"]


class ToyBlock:
    def run(self, x: "Shape") -> "Shape":
        return x
# --- modular_toy_fast.py
from typing import TYPE_CHECKING

from . import modeling_toy as toy

if TYPE_CHECKING:
    from not_there import Form

__all__ = ["ToyBlock"]


class ToyBlock(toy.ToyBlock):
    def run(self, x: "Form") -> "Form":
        return super().run(x) + 1
# --- probe
ToyBlock().run(3)
ToyBlock.run.__annotations__
__all__
