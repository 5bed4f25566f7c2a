"""A method has one `**kwargs`."""
# --- parent
class P:
    def has(self, x, **kwargs):
        return x
    def has_others(self, x, **others):
        return x
    def twice(self, x):
        return x
# --- modular
from patchgen.edits import New, edit
class C(P):
    @edit("has")
    def a(self, **kwargs: New): ...
    @edit("has_others")
    def b(self, **kwargs: New): ...
    @edit("twice")
    def c(self, **kwargs: New): ...
    @edit("twice")
    def d(self, **others: New): ...
# --- error
# modular.py:4:19: PG305 has has a name kwargs already
#     hint: choose another name
# modular.py:6:19: PG305 has_others has **others already
#     hint: list others by its name alone to read it
# modular.py:10:19: PG303 two edits add ** to P.twice
#     hint: keep one of them
