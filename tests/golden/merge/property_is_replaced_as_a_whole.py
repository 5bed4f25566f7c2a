"""A child's property without a setter has no setter: that is Python's rule."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    @property
    def x(self):
        return self._x

    @x.setter
    def x(self, value):
        self._x = value

    def f(self):
        return self.x

    @x.deleter
    def x(self):
        del self._x
# --- modular
class C(P):
    @property
    def x(self):
        return 7
# --- flat
class C(Base):
    @property
    def x(self):
        return 7

    def f(self):
        return self.x
# --- probe
c = C()
print(c.f())
try:
    c.x = 1
except AttributeError as error:
    print("no setter")
