"""`raise AttributeError` takes a method away, `x = AttributeError()` an attribute."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    flag = True
    size: int = 3

    @property
    def f(self):
        return 1

    @f.setter
    def f(self, value):
        pass

    def g(self):
        return 2
# --- modular
class C(P):
    flag = AttributeError()
    size: int = AttributeError("no size")

    def f(self):
        """Not here."""
        raise AttributeError("not needed for C")
# --- flat
class C(Base):

    def g(self):
        return 2
