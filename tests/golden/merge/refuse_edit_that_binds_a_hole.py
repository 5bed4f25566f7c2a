"""A hole is an expression, not a name that can be bound."""
# --- parent
class P:
    def f(self, x):
        return x + 1
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("f")
    def a(self, h: Hole):
        with old:
            return h
        with new:
            return lambda h: h
# --- error
# modular.py:7:9: PG305 h is a Hole, but `with new:` binds the name
#     hint: give h under `with new:` another name
