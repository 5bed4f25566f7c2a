"""A class edits its parent's method, and the class above it overrides the method and calls it."""
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
    def more(self, x):
        with old:
            x + 1
        with new:
            x + 2
class C(M):
    def forward(self, x):
        return super().forward(x) * 10
# --- flat
class C(Base):
    def forward(self, x):
        return self._forward_of_P(x) * 10

    def _forward_of_P(self, x):
        y = x + 2
        return y
# --- edited
class P(Base):
    def forward(self, x):
        y = x + 2
        return y
# --- probe
print(C().forward(1))
