"""A new attribute of a class that has methods alone stands above them."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def f(self):
        return self.size

# --- modular
class C(P):
    size = 2

class D(C):
    def g(self):
        return 1
    other = 1
# --- flat
class D(Base):
    size = 2
    other = 1
    def f(self):
        return self.size
    def g(self):
        return 1
# --- probe
print(D().f(), D().g(), D.other)
