"""A class inside a method names the merged parent, and has a `super()` of its own."""
# --- bases
class Base:
    pass
class Other:
    def f(self, x):
        return "other", x
# --- parent
class P(Base):
    def f(self, x):
        return "p", x
# --- modular
class C(P):
    def f(self, x):
        class Inner(Other):
            def f(self, y):
                return super().f(y), P.f(self, y), __class__.__name__
        return Inner().f(x), [P.f(self, i) for i in range(2)]
# --- flat
class C(Base):
    def f(self, x):
        class Inner(Other):
            def f(self, y):
                return super().f(y), C._f_of_P(self, y), __class__.__name__
        return Inner().f(x), [C._f_of_P(self, i) for i in range(2)]

    def _f_of_P(self, x):
        return "p", x
# --- probe
print(C().f(1))
