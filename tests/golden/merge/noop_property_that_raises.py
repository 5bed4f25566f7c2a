"""A decorated method that raises AttributeError is an override like any other."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    @property
    def f(self):
        return 1
# --- modular
class C(P):
    @property
    def f(self):
        raise AttributeError("hidden")
# --- flat
class C(Base):
    @property
    def f(self):
        raise AttributeError("hidden")
# --- probe
print(hasattr(C(), "f"), "f" in vars(C))
