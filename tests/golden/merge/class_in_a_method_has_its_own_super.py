"""A class inside a method has a `super()` of its own."""
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
                return super().f(y), __class__.__name__
        return Inner().f(x), super().f(x)
# --- flat
class C(Base):
    def f(self, x):
        class Inner(Other):
            def f(self, y):
                return super().f(y), __class__.__name__
        return Inner().f(x), self._f_of_P(x)

    def _f_of_P(self, x):
        return "p", x
# --- probe
print(C().f(1))
