"""A generator without parentheses of its own gets them where it is not alone; it can be replaced, too."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        total = sum(y for y in x)
        return total, max(abs(y) for y in x)
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("forward")
    def start(self, what: Hole):
        with old:
            sum(what)
        with new:
            sum(what, 1)

    @edit("forward")
    def largest(self, x):
        with old:
            (abs(y) for y in x)
        with new:
            [0, *x]
# --- flat
class C(Base):
    def forward(self, x):
        total = sum((y for y in x), 1)
        return total, max([0, *x])
