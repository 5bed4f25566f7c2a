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
        return P.make(), isinstance(self, P)
# --- error
# modular.py:3:16: PG210 make of a parent that is merged is used otherwise than as Parent.m(self)
#     hint: write super().make, or self.make
