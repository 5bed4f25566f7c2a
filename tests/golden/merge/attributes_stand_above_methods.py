"""New attributes stand below the parent's attributes; one that reads a method stays below it."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    "What it is."

    size = 1
    kind: str

    def f(self):
        return self.size
# --- modular
class M(P):
    middle = 2

    def g(self):
        return self.middle

class C(M):
    # how deep it is
    depth: int = 3
    kind = "c"

    def h(self):
        return self.depth

    deep = property(h)
# --- flat
class C(Base):
    "What it is."

    size = 1
    kind: str = "c"
    middle = 2
    # how deep it is
    depth: int = 3

    def f(self):
        return self.size

    def g(self):
        return self.middle

    def h(self):
        return self.depth

    deep = property(h)
# --- probe
print(C().f(), C().g(), C().deep, C.kind)
