"""A function in the parent's method keeps `n`, which the child binds again afterwards."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, n):
        self.later = lambda: n
# --- modular
class C(P):
    def __init__(self, n):
        super().__init__(n)
        n = 100
        self.n = n
# --- flat
class C(Base):
    def __init__(self, n):
        self._init_of_P(n)
        n = 100
        self.n = n

    def _init_of_P(self, n):
        self.later = lambda: n
# --- probe
c = C(2)
print(c.later(), c.n)
