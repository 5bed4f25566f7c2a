"""A hole stands for all that is in brackets, and is a tuple elsewhere."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, i):
        return x[i, 1]
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("forward")
    def look(self, x, what: Hole):
        with old:
            x[what]
        with new:
            x.get(what)
# --- flat
class C(Base):
    def forward(self, x, i):
        return x.get((i, 1))
