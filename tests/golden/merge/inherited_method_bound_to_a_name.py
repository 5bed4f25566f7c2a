"""`super().n` without a call: a copy, for `self.n` would ask a subclass."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def n(self):
        return "p"
# --- modular
class C(P):
    def m(self):
        inherited = super().n
        return [inherited() for _ in range(2)]
# --- flat
class C(Base):
    def n(self):
        return "p"
    def m(self):
        inherited = self._n_of_P
        return [inherited() for _ in range(2)]

    def _n_of_P(self):
        return "p"
# --- probe
class D(C):
    def n(self):
        return "d"
print(C().m(), D().m())
