"""`@f.register` changes f: a parent's implementation stays though the child binds its name again."""
# --- bases
from functools import singledispatchmethod
class Base:
    pass
# --- parent
class P(Base):
    @singledispatchmethod
    def f(self, x):
        return "any"

    @f.register
    def _(self, x: int):
        return "int"
# --- modular
class C(P):
    def _(self):
        return 1
# --- flat
class C(Base):
    @singledispatchmethod
    def f(self, x):
        return "any"

    @f.register
    def _(self, x: int):
        return "int"
    def _(self):
        return 1
# note: C._ does not take x, which P._ takes
# --- probe
print(C().f(1), C().f("a"), C()._())
