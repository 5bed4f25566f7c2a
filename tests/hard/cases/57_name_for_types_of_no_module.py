# expect: E PG101 toypack/modeling_toy.py:4:26
# hint: toypack has no nowhere
# --- modeling_toy.py
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .nowhere import Kind


class ToyBlock:
    def run(self, kind: "Kind"):
        return kind
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    pass
