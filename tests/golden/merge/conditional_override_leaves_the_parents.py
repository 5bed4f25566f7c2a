"""A child's `if` without `else` may bind nothing; then the parent's member is meant."""
# --- bases
class Base:
    pass
# --- parent
NEW = False
class P(Base):
    a = 1
    def f(self):
        return "p"
    def g(self):
        return "p"
# --- modular
NEW = False
class C(P):
    if NEW:
        a = 2
        def f(self):
            return "c"
    if NEW:
        def g(self):
            return "c"
    else:
        def g(self):
            return "not new"
# --- flat
class C(Base):
    a = 1
    def f(self):
        return "p"
    if NEW:
        def g(self):
            return "c"
    else:
        def g(self):
            return "not new"
    if NEW:
        a = 2
        def f(self):
            return "c"
# --- probe
print(C.a, C().f(), C().g())
