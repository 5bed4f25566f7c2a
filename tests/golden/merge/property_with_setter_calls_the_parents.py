"""A property that asks for the parent's property finds it under a private name."""
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
# --- modular
class C(P):
    @property
    def x(self):
        return super().x + 1

    @x.setter
    def x(self, value):
        self._x = value * 10
# --- flat
class C(Base):
    @property
    def x(self):
        return self._x_of_P + 1

    @x.setter
    def x(self, value):
        self._x = value * 10

    @property
    def _x_of_P(self):
        return self._x

    @_x_of_P.setter
    def _x_of_P(self, value):
        self._x = value
# --- probe
c = C()
c.x = 4
print(c.x)
