"""A child's member that reads a new one comes after it, not in the parent's place."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    b = 1
    def f(self):
        return self.b
    def g(self):
        return 1
# --- modular
class C(P):
    a = 5
    b = a + 1
    def run(self):
        return 2
    g = run
# --- flat
class C(Base):
    a = 5
    b = a + 1
    def f(self):
        return self.b
    def run(self):
        return 2
    g = run
# --- probe
print(C().f(), C.a, C().g())
