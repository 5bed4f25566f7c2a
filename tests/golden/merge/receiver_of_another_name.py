"""The object may be called otherwise in each class."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(this, n):
        this.n = n
    def f(me, x):
        return me.n + x
# --- modular
class C(P):
    def __init__(self, n):
        super().__init__(n)
        self.c = 1
    def f(it, x):
        return super().f(x) + 1
# --- flat
class C(Base):
    def __init__(self, n):
        self._init_of_P(n)
        self.c = 1

    def _init_of_P(this, n):
        this.n = n
    def f(it, x):
        return it._f_of_P(x) + 1

    def _f_of_P(me, x):
        return me.n + x
# --- probe
print(vars(C(1)), C(1).f(2))
