"""The words of `patchgen.edits` may be imported as a module, or under other names."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        return x + 1
# --- modular
from patchgen import edits
from patchgen.edits import edit as change
class C(P):
    @edits.edit("forward")
    def one(self, x, n: edits.Hole):
        with edits.old:
            x + n
        with edits.new:
            x - n
# --- flat
class C(Base):
    def forward(self, x):
        return x - 1
