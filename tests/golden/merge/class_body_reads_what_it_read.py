"""A parent's attribute that reads another one which the child overrides: the parent's value is still made."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    size = 2
    double = size * 2

    def f(self, n=size):
        return n
# --- modular
class C(P):
    size = 5
# --- flat
class C(Base):
    size = 2
    double = size * 2

    def f(self, n=size):
        return n
    size = 5
# --- probe
print(C.size, C.double, C().f())
