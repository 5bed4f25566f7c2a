"""An overridden member that was registered with another one: the registration would be lost."""
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
    def of_int(self, x: int):
        return "int"
# --- modular
class C(P):
    def of_int(self, x):
        return 1
# --- error
# parent.py:6:5: PG201 of_int of P is overridden, and may change f
#     hint: give the other one another name
