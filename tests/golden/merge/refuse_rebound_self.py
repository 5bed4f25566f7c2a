"""After `self = other`, `super()` would follow the other object."""
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
        self = x
        return 1 + super().f(x)
# --- error
# modular.py:4:20: PG213 super().f where self is bound again
#     hint: give the other value a name of its own
