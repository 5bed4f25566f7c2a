"""A nested class has a `super()` of its own."""
# --- bases
class Base:
    pass
class Other:
    def f(self):
        return "other"
# --- parent
class P(Base):
    def f(self):
        return "p"
# --- modular
class C(P):
    class Inner(Other):
        def f(self):
            return super().f()
# --- flat
class C(Base):
    def f(self):
        return "p"
    class Inner(Other):
        def f(self):
            return super().f()
# --- probe
print(C().f(), C.Inner().f())
