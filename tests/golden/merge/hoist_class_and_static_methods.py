"""`super()` in a classmethod, and of a static method."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    kind = "p"

    def __init__(self, n=0):
        self.n = n

    @classmethod
    def make(cls, n):
        return cls(n), cls.kind

    @staticmethod
    def add(a, b):
        return a + b
# --- modular
class C(P):
    kind = "c"

    @classmethod
    def make(cls, n):
        made, kind = super().make(n)
        return made.n, kind

    def add(self, a, b):
        return super().add(a, b) * 10
# --- flat
class C(Base):
    kind = "c"

    def __init__(self, n=0):
        self.n = n

    @classmethod
    def make(cls, n):
        made, kind = cls._make_of_P(n)
        return made.n, kind

    @classmethod
    def _make_of_P(cls, n):
        return cls(n), cls.kind

    def add(self, a, b):
        return self._add_of_P(a, b) * 10

    @staticmethod
    def _add_of_P(a, b):
        return a + b
# --- probe
print(C.make(1), C(5).n, C().add(1, 2))
