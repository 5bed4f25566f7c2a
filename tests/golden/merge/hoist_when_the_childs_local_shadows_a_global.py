"""The parent's code reads a global that is a local of the child."""
# --- bases
class Base:
    pass
# --- parent
scale = 5
class P(Base):
    def __init__(self, n):
        self.n = n * scale
# --- modular
class C(P):
    def __init__(self, n):
        scale = 1
        super().__init__(n)
        self.scale = scale
# --- flat
class C(Base):
    def __init__(self, n):
        scale = 1
        self._init_of_P(n)
        self.scale = scale

    def _init_of_P(self, n):
        self.n = n * scale
# --- probe
print(vars(C(3)))
