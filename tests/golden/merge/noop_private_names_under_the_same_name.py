"""Equal class names mangle alike: nothing to do."""
# --- bases
class Base:
    pass
# --- parent
class C(Base):
    def __init__(self, n):
        self.__n = n
    def f(self):
        return self.__n
# --- modular
class C(parent.C):
    def g(self):
        self.__n += 1
        return self.__n
# --- flat
class C(Base):
    def __init__(self, n):
        self.__n = n
    def f(self):
        return self.__n
    def g(self):
        self.__n += 1
        return self.__n
# --- probe
c = C(1)
print(c.g(), c.f(), sorted(vars(c)))
