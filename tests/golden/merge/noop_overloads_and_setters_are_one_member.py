"""Definitions that use each other are no double claims."""
# --- bases
from typing import overload
class Base:
    pass
# --- parent
class P(Base):
    def f(self, x):
        return 1
# --- modular
class C(P):
    @overload
    def f(self, x: int) -> int: ...
    @overload
    def f(self, x: str) -> str: ...
    def f(self, x):
        return x

    @property
    def y(self):
        return self._y
    @y.setter
    def y(self, value):
        self._y = value
# --- flat
class C(Base):
    @overload
    def f(self, x: int) -> int: ...
    @overload
    def f(self, x: str) -> str: ...
    def f(self, x):
        return x

    @property
    def y(self):
        return self._y
    @y.setter
    def y(self, value):
        self._y = value
# --- probe
c = C()
c.y = 3
print(c.y, c.f("a"))
