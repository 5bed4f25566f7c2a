# Valid Python that is written as nobody writes it: names on lines of their own, other spellings, tabs and form feeds.
# The format is told in ../../packages.py.

# === names that Python reads as others
# classes: NeoBlock
# overrides: ToyBlock > NeoBlock
# renames: Toy > Neo
# --- modeling_toy.py
class ToyﬁlterBase:
    n = <1>


class ToyFilter(ToyfilterBase):
    def ﬁeld(self, x):
        if x > 5:
            return 0
        return x + self.n


class ToyBlock:
    def other(self):
        ﬁrst = ToyﬁlterBase
        return [ToyFilter().field(2), ToyﬁlterBase.n, first.n]

    def ﬁeld(self, x):
        if x > 5:
            return 0
        return x * 2
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    def field(self, x):
        y = super().ﬁeld(x)
        return y + <2>
# --- probe
NeoBlock().other()
NeoBlock().field(1)
NeoBlock().field(9)
