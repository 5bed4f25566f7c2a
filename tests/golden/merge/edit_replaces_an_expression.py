"""One bare expression is found anywhere; what fills a hole gets parentheses where it needs them."""
# --- bases
def f(x):
    return x + 1
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, a, b):
        if f(a + b) > 3:
            return [f(a if a else b), -f(b)]
        return f(a, ) * 2
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("forward", count=4)
    def square(self, what: Hole):
        with old:
            f(what)
        with new:
            what**2 + 1
# --- flat
class C(Base):
    def forward(self, a, b):
        if (a + b)**2 + 1 > 3:
            return [(a if a else b)**2 + 1, -(b**2 + 1)]
        return (a**2 + 1) * 2
