"""A statement that binds several names stays where the child replaces some of them, and goes with the last."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    a = b = c = 1
    d = e = 2

    def f(self):
        return self.a
# --- modular
class C(P):
    b = 3
    d = 4
    e = 5
    g = c = 6
# --- flat
class C(Base):
    a = b = c = 1
    b = 3
    g = c = 6
    d = 4
    e = 5

    def f(self):
        return self.a
# --- probe
print(C.a, C.b, C.c, C.d, C.e, C.g)
