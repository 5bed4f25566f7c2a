"""The child's docstring if it has one, else the parent's."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    """The parent's."""

    def f(self):
        return 1
# --- modular
class C(P):
    def f(self):
        return 2
# --- flat
class C(Base):
    """The parent's."""

    def f(self):
        return 2
# --- probe
print(C().f())
