"""Only the outermost iterable of a comprehension is evaluated in the method itself."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def m(self, x=1):
        return x + 1
# --- modular
class C(P):
    def m(self, x=1):
        return [super().m(i) for i in range(2)]
# --- error
# modular.py:3:17: PG211 super().m stands in a nested function or comprehension
#     hint: bind it first: inherited = super().m
