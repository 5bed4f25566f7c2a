"""Definitions under `if` stay together and as they are."""
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

    for i in range(2):
        pass
# --- modular
class C(P):
    def g(self):
        return self.f()
# --- flat
class C(Base):
    if FAST:
        def f(self):
            return "fast"
    else:
        def f(self):
            return "slow"

    for i in range(2):
        pass
    def g(self):
        return self.f()
# --- probe
print(C().g(), C.i)
