"""A child's member stands where the parent's stood, with its own comments; new members follow."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    # about a
    a = 1
    # about b
    b = 2

    # about f
    def f(self):
        return self.a

    def g(self):
        return self.b
# --- modular
class C(P):
    def h(self):
        return 0

    # the child's f
    def f(self):
        return -self.a

    b = 3
# --- flat
class C(Base):
    # about a
    a = 1
    b = 3

    # the child's f
    def f(self):
        return -self.a

    def g(self):
        return self.b
    def h(self):
        return 0
# --- probe
c = C()
print(c.f(), c.g(), c.h(), C.a, C.b)
