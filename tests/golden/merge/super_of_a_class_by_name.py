"""`super(C, self)` of the class itself, of a merged parent, and in a nested function."""
# --- bases
class Base:
    def __init__(self, size):
        self.size = size
    def f(self, x):
        return x
    def g(self, x):
        return x + 1
# --- parent
class P(Base):
    def __init__(self, size):
        super(P, self).__init__(size)
        self.twice = 2 * size
    def f(self, x):
        return 2 * super(P, self).f(x)
    def h(self, x):
        return 3 * x
# --- modular
class C(P):
    low, high = -1, 1
    def __init__(self, size):
        super(C, self).__init__(size)
        self.half = size // 2
    def f(self, x):
        return super(P, self).f(x) + self.low
    def g(self, x):
        def inner():
            return super(C, self).g(x)
        return inner() + self.high
    def h(self, x):
        return super(C, self).h(x) + 1
# --- flat
class C(Base):
    low, high = -1, 1
    def __init__(self, size):
        super().__init__(size)
        self.twice = 2 * size
        self.half = size // 2
    def f(self, x):
        return super().f(x) + self.low
    def h(self, x):
        return self._h_of_P(x) + 1

    def _h_of_P(self, x):
        return 3 * x
    def g(self, x):
        def inner():
            return super(C, self).g(x)
        return inner() + self.high
# --- probe
c = C(4)
print(c.f(1), c.g(1), c.h(1), c.half, c.twice, c.size, c.low, c.high)
