"""A name that is bound and deleted is no member."""
# --- bases
class Base:
    def n(self):
        return "base"
# --- parent
class P(Base):
    n = 2
    size = n * 2
    del n
# --- modular
class C(P):
    def f(self):
        return super().n(), self.n(), self.size
# --- flat
class C(Base):
    n = 2
    size = n * 2
    del n
    def f(self):
        return super().n(), self.n(), self.size
# --- probe
print(C().f())
