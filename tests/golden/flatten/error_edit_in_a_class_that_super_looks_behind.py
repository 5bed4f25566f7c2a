# reason: super(ToyMid, self) begins at the parents of ToyMid, which an edit needs merged into it
# --- parent toy/modeling_toy.py
class ToyBase:
    def forward(self, x):
        return x * 2
# --- modular toy/modular_toy_fast.py
from patchgen.edits import edit, new, old

from . import modeling_toy as toy


class ToyMid(toy.ToyBase):
    @edit("forward")
    def add(self, x):
        with old:
            x * 2
        with new:
            x + 2


class ToyLeaf(ToyMid):
    def forward(self, x):
        return super(ToyMid, self).forward(x)
# --- error
toy/modular_toy_fast.py:17:16: PG100 super(ToyMid, self): this is not in the language of modular files
    hint: write super(), or Parent.method(self, ...)
