"""`super(Child, self)`, and `super(Parent, self)`, which begins behind that parent."""
# --- bases
class Base:
    pass
# --- parent
class G(Base):
    def f(self):
        return "g"

class P(G):
    def f(self):
        return "p" + super(P, self).f()
# --- modular
class C(P):
    def f(self):
        return "c" + super(C, self).f() + super(P, self).f()
# --- flat
class C(Base):
    def f(self):
        return "c" + self._f_of_P() + self._f_of_G()

    def _f_of_G(self):
        return "g"

    def _f_of_P(self):
        return "p" + self._f_of_G()
# --- probe
print(C().f())
