"""A local of the parent that the child uses as well."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, n):
        size = n * 2
        self.size = size
# --- modular
class C(P):
    def __init__(self, n):
        size = 100
        super().__init__(n)
        self.own = size
# --- flat
class C(Base):
    def __init__(self, n):
        size = 100
        self._init_of_P(n)
        self.own = size

    def _init_of_P(self, n):
        size = n * 2
        self.size = size
# --- probe
print(vars(C(3)))
