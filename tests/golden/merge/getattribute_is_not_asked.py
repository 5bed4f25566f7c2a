"""`super().m` does not ask `__getattribute__`, so neither may what takes its place."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __getattribute__(self, name):
        return super().__getattribute__(name)
    def f(self, x):
        return x
# --- modular
class C(P):
    def __getattribute__(self, name):
        if name.startswith("_"):
            print("asked", name)
        return super().__getattribute__(name)
    def f(self, x):
        return super().f(x) + 1
# --- flat
class C(Base):
    def __getattribute__(self, name):
        if name.startswith("_"):
            print("asked", name)
        return super().__getattribute__(name)
    def f(self, x):
        return C._f_of_P(self, x) + 1

    def _f_of_P(self, x):
        return x
# --- probe
print(C().f(1))
