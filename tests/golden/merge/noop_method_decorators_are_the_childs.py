"""Python's rule: an override has the decorators that it is written with."""
# --- bases
def doubled(function):
    return lambda self, x: function(self, x) * 2
class Base:
    pass
# --- parent
class P(Base):
    @doubled
    def f(self, x):
        return x
    @doubled
    def g(self, x):
        return x
# --- modular
class C(P):
    def f(self, x):
        return x + 1
# --- flat
class C(Base):
    def f(self, x):
        return x + 1
    @doubled
    def g(self, x):
        return x
# --- probe
print(C().f(1), C().g(1))
