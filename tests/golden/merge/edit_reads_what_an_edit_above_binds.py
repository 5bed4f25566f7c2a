"""What an edit may read are the names of the method, and those that the edits above it bind."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        x = x + 1
        y = x * 2
        return y
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("forward")
    def measure(self, x):
        with old:
            x = x + 1
        with new:
            width = x - 1
            x = x + (count := 1)

    @edit("forward")
    def use_it(self, y, width, count):
        with old:
            return y
        with new:
            return y + width, count
# --- flat
class C(Base):
    def forward(self, x):
        width = x - 1
        x = x + (count := 1)
        y = x * 2
        return y + width, count
