"""`f: int` in between binds nothing, so `super().f` looks further."""
# --- bases
class Base:
    pass
# --- parent
class G(Base):
    def f(self):
        return "g"
class P(G):
    f: object
# --- modular
class C(P):
    def f(self):
        return super().f() + "c"
# --- flat
class C(Base):
    def f(self):
        return self._f_of_G() + "c"

    def _f_of_G(self):
        return "g"
# --- probe
print(C().f())
