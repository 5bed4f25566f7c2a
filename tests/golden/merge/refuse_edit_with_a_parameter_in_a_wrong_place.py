"""A parameter with a default before one without, one without a default behind one with one, a variable that the edit does not assign."""
# --- parent
class P:
    def before(self, x, y=1):
        return x + y
    def behind(self, x, y=1):
        return x + y
    def variable(self, x):
        y = x + 1
        return y
# --- modular
from patchgen.edits import Hole, New, edit, new, old
class C(P):
    @edit("before")
    def a(self, z: New = 1, *rest: Hole): ...
    @edit("behind")
    def b(self, x, y, z: New, *rest: Hole): ...
    @edit("variable")
    def e(self, x, y: New = 2):
        with old: x + 1
        with new: x + y
# --- error
# modular.py:4:17: PG305 z has a default, and stands before x, which has none
#     hint: list x before it, or write it behind `*`
# modular.py:6:23: PG305 z stands behind parameters with a default
#     hint: give it a default, or write it behind `*`
# modular.py:8:20: PG305 variable has a name y already
#     hint: choose another name
