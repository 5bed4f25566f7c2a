"""Edits of one method are made from the base up: the second sees what the first has written."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        y = x + 1
        return y
# --- modular
from patchgen.edits import edit, new, old
class M(P):
    @edit("forward")
    def more(self, x, y):
        with old:
            y = x + 1
        with new:
            y = x + 1
            z = y
class C(M):
    @edit("forward")
    def most(self):
        with old:
            z = y
        with new:
            y = y * 10
# --- flat
class C(Base):
    def forward(self, x):
        y = x + 1
        y = y * 10
        return y
