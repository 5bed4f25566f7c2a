"""A parent that is merged does not exist any more: only its attributes do."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    @classmethod
    def make(cls):
        return cls()
    def f(self):
        return 1
# --- modular
class C(P):
    def f(self):
        return P.make(), super(P, type(self)).f
# --- error
# modular.py:3:16: PG210 make is a classmethod of a class that is merged into another
#     hint: write super().make
# modular.py:3:26: PG210 super is called with arguments that are no plain names
#     hint: write super()
