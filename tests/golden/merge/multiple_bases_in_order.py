"""Mixins before and behind the parent, flattened in the order of Python's MRO."""
# --- bases
class Base:
    def f(self):
        return ["base"]
# --- parent
class Root(Base):
    def f(self):
        return super().f() + ["root"]
class A(Root):
    def f(self):
        return super().f() + ["a"]
class B(Root):
    kind = "b"
    def f(self):
        return super().f() + ["b"]
# --- modular
class C(A, B):
    def f(self):
        return super().f() + ["c"]
    def g(self):
        return A.f(self)
# --- flat
class C(Base):
    kind = "b"
    def f(self):
        return self._f_of_A() + ["c"]

    def _f_of_Root(self):
        return super().f() + ["root"]

    def _f_of_B(self):
        return self._f_of_Root() + ["b"]

    def _f_of_A(self):
        return self._f_of_B() + ["a"]
    def g(self):
        return self._f_of_A()
# --- probe
print(C().f(), C().g(), C.kind)
