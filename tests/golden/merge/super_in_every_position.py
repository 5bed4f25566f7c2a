"""`super()` in an operator, an argument, a condition, a subscript, an f-string, a generator's iterable, twice."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def m(self, x=1):
        return x + 1

    def n(self):
        return [10, 20, 30]
# --- modular
class C(P):
    def m(self, x=1):
        if super().m(x) > 2:
            return -super().m(x=x)
        pair = super().m(), super().n()[1]
        text = f"{super().m(5)}"
        inherited = super().m
        out = [i for i in super().n()]
        return pair, text, inherited(3), self.k(super().m(1)), out

    def k(self, y):
        return y
# --- flat
class C(Base):
    def m(self, x=1):
        if self._m_of_P(x) > 2:
            return -self._m_of_P(x=x)
        pair = self._m_of_P(), C.n(self)[1]
        text = f"{self._m_of_P(5)}"
        inherited = self._m_of_P
        out = [i for i in C.n(self)]
        return pair, text, inherited(3), self.k(self._m_of_P(1)), out

    def _m_of_P(self, x=1):
        return x + 1

    def n(self):
        return [10, 20, 30]

    def k(self, y):
        return y
# --- probe
print(C().m(1), C().m(2))
