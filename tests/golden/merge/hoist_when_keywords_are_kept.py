"""The parent takes from its copy of the dictionary; the child keeps hold of its own."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, **kwargs):
        self.a = kwargs.pop("a", 0)
        self.rest = kwargs
# --- modular
class C(P):
    def __init__(self, **kwargs):
        self.given = kwargs
        super().__init__(**kwargs)
# --- flat
class C(Base):
    def __init__(self, **kwargs):
        self.given = kwargs
        self._init_of_P(**kwargs)

    def _init_of_P(self, **kwargs):
        self.a = kwargs.pop("a", 0)
        self.rest = kwargs
# --- probe
print(vars(C(a=1, b=2)))
