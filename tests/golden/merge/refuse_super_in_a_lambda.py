"""`super()` in a nested scope takes that scope's first argument for the object."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def f(self, x):
        return x
# --- modular
class C(P):
    def f(self, x):
        later = lambda y: super().f(y)
        return later(x)
# --- error
# modular.py:3:27: PG211 super().f stands in a nested function or comprehension
#     hint: bind it first: inherited = super().f
