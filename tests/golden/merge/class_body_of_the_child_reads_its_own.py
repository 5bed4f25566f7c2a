"""A child's member that reads a new one comes after it, not in the parent's place."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    b = 1
    def f(self):
        return self.b
# --- modular
class C(P):
    a = 5
    b = a + 1
# --- flat
class C(Base):
    b = 1
    def f(self):
        return self.b
    a = 5
    b = a + 1
# --- probe
print(C().f(), C.a)
