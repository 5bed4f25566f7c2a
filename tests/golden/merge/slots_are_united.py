"""`__slots__` of both classes, private ones mangled as they were."""
# --- bases
class Base:
    __slots__ = ()
# --- parent
class P(Base):
    __slots__ = ("a", "__b")
    def __init__(self):
        self.a = 1
        self.__b = 2
# --- modular
class C(P):
    __slots__ = "c"
    def __init__(self):
        super().__init__()
        self.c = 3
# --- flat
class C(Base):
    __slots__ = ('c', 'a', '_P__b')
    def __init__(self):
        self.a = 1
        self._P__b = 2
        self.c = 3
# --- probe
c = C()
print(c.a, c._P__b, c.c, hasattr(c, "__dict__"))
