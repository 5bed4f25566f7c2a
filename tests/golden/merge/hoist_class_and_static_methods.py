"""`super()` in a classmethod, `__new__`, and of a static method."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    kind = "p"

    def __new__(cls, n=0):
        made = super().__new__(cls)
        made.n = n
        return made

    @classmethod
    def make(cls, n):
        return cls(n), cls.kind

    @staticmethod
    def add(a, b):
        return a + b
# --- modular
class C(P):
    kind = "c"

    def __new__(cls, n=0):
        made = super().__new__(cls, n + 1)
        return made

    @classmethod
    def make(cls, n):
        made, kind = super().make(n)
        return made.n, kind

    def add(self, a, b):
        return super().add(a, b) * 10
# --- flat
class C(Base):
    kind = "c"

    def __new__(cls, n=0):
        made = cls._new_of_P(cls, n + 1)
        return made

    @staticmethod
    def _new_of_P(cls, n=0):
        made = super().__new__(cls)
        made.n = n
        return made

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
