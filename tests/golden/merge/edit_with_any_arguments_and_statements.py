"""`...` stands for the remaining arguments of a call, or for a run of statements."""
# --- bases
def call(*args, **kwargs):
    return args, sorted(kwargs.items())
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        first = call(self.n, x, 3, scale=1, dim=2)
        y = x + 1
        y = y * 2
        last = call(y)
        return first, last
    n = 0
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("forward")
    def simpler(self, first, last, x, n: Hole, d: Hole):
        with old:
            first = call(n, ..., dim=d)
            ...
            last = call(...)
        with new:
            first = last = call(n, x, d)
# --- flat
class C(Base):
    def forward(self, x):
        first = last = call(self.n, x, 2)
        return first, last
    n = 0
