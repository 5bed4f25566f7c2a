"""`Parent.method(self)`, as the documentation of transformers writes it."""
# --- bases
class Base:
    pass
# --- parent
class G(Base):
    def __init__(self, n):
        self.n = n
    def f(self, x):
        return x + self.n
    def only_above(self, x):
        return -x

class P(G):
    def __init__(self, n):
        super().__init__(n)
        self.p = True
    def f(self, x):
        return x * 10
# --- modular
class C(P):
    def __init__(self, n):
        G.__init__(self, n)
        self.own = 1
    def f(self, x):
        return G.f(self, x), P.f(self, x=x)
    def only_above(self, x):
        return P.only_above(self, x) + 1
# --- flat
class C(Base):
    def __init__(self, n):
        self.n = n
        self.own = 1
    def f(self, x):
        return self._f_of_G(x), self._f_of_P(x=x)

    def _f_of_G(self, x):
        return x + self.n

    def _f_of_P(self, x):
        return x * 10
    def only_above(self, x):
        return self._only_above_of_G(x) + 1

    def _only_above_of_G(self, x):
        return -x
# --- probe
print(vars(C(1)), C(1).f(2), C(1).only_above(3))
