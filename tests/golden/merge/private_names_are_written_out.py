"""Hard input 39: `__x` of a class with another name keeps its meaning."""
# --- bases
class Base:
    pass
# --- parent
class _P(Base):
    __kind = "p"
    def __init__(self, __n):
        self.__n = __n
        self.text = f"{self.__n!r} and {self.__kind}"
    def __secret(self):
        return self.__n
    def f(self):
        class Inner:
            __x = 1
        return self.__secret(), hasattr(self, "_P__n"), dict(__n=1), Inner._Inner__x
# --- modular
class C(_P):
    __kind = "c"
    def __init__(self, n):
        super().__init__(n)
        self.__n = n + 1
    def g(self):
        return self.__n, self.__kind
# --- flat
class C(Base):
    _P__kind = "p"
    def __init__(self, n):
        _P__n = n
        self._P__n = _P__n
        self.text = f"{self._P__n!r} and {self._P__kind}"
        self.__n = n + 1
    def _P__secret(self):
        return self._P__n
    def f(self):
        class Inner:
            __x = 1
        return self._P__secret(), hasattr(self, "_P__n"), dict(__n=1), Inner._Inner__x
    __kind = "c"
    def g(self):
        return self.__n, self.__kind
# note: C.__init__ does not take _P__n, which _P.__init__ takes
# --- probe
c = C(1)
print(c.f(), c.g(), sorted(vars(c)), c.text, C._P__kind)
