"""The parent may return early; the child goes on."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, n):
        self.n = n
        if n > 2:
            return
        self.small = True
# --- modular
class C(P):
    def __init__(self, n):
        super().__init__(n)
        self.done = True
# --- flat
class C(Base):
    def __init__(self, n):
        self._init_of_P(n)
        self.done = True

    def _init_of_P(self, n):
        self.n = n
        if n > 2:
            return
        self.small = True
# --- probe
print(vars(C(1)), vars(C(3)))
