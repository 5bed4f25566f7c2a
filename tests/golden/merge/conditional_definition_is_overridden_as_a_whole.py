"""A statement whose names are all overridden goes; one that binds more stays, and the child comes after it."""
# --- bases
class Base:
    pass
# --- parent
FAST = True
class P(Base):
    if FAST:
        def f(self):
            return "fast"
    else:
        def f(self):
            return "slow"

    a = b = 1

    def g(self):
        return self.f()
# --- modular
class C(P):
    def f(self):
        return "mine"

    a = 2
# --- flat
class C(Base):
    def f(self):
        return "mine"

    a = b = 1

    def g(self):
        return self.f()

    a = 2
# --- probe
print(C().g(), C.a, C.b)
