"""What a parent's method may hold and still be written out: nested returns, comprehensions, a nested function."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, n):
        def twice(x):
            return x * 2
        self.items = [twice(i) for i in range(n)]
        self.later = lambda: n
        return
# --- modular
class C(P):
    def __init__(self, n):
        n = n + 1
        super().__init__(n)
        self.own = True
# --- flat
class C(Base):
    def __init__(self, n):
        n = n + 1
        def twice(x):
            return x * 2
        self.items = [twice(i) for i in range(n)]
        self.later = lambda: n
        self.own = True
# --- probe
c = C(2)
print(c.items, c.later(), c.own)
