"""Setting a property is more than holding a value: both assignments stay."""
# --- bases
class Base:
    pass
def note(x):
    print("note", x)
    return x
# --- parent
class P(Base):
    def __init__(self, config):
        self.size = config
        self.item = note("parent")
        self.last = 1
    @property
    def size(self):
        return self._size
    @size.setter
    def size(self, value):
        print("size", value)
        self._size = value
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config)
        self.size = 7
        self.item = "child"
        self.last = note("child")
# --- flat
class C(Base):
    def __init__(self, config):
        self.size = config
        self.item = note("parent")
        self.last = 1
        self.size = 7
        self.item = "child"
        self.last = note("child")
    @property
    def size(self):
        return self._size
    @size.setter
    def size(self, value):
        print("size", value)
        self._size = value
# --- probe
print(vars(C(3)))
