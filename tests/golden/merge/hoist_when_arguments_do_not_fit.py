"""Too many arguments, `*args`, defaults that are no constants: Python binds, or refuses, at run time."""
# --- bases
class Base:
    pass
LIMIT = 3
# --- parent
class P(Base):
    def f(self, x, limit=LIMIT):
        return x, limit
    def g(self, x):
        return x
    def h(self, *args, key=1):
        return args, key
# --- modular
class C(P):
    def f(self, x):
        return super().f(x)
    def g(self, x):
        return super().g(x, x)
    def h(self, *args):
        return super().h(*args)
# --- flat
class C(Base):
    def f(self, x):
        return self._f_of_P(x)

    def _f_of_P(self, x, limit=LIMIT):
        return x, limit
    def g(self, x):
        return self._g_of_P(x, x)

    def _g_of_P(self, x):
        return x
    def h(self, *args):
        return self._h_of_P(*args)

    def _h_of_P(self, *args, key=1):
        return args, key
# note: C.f does not take limit, which P.f takes
# note: C.h does not take key, which P.h takes
# --- probe
print(C().f(1), C().h(1, 2))
try:
    C().g(1)
except TypeError:
    print("too many")
