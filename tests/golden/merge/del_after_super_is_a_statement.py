"""`del self.x` after the parent's `__init__` is a statement like any other."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, config):
        self.a = config
        # b is not needed
        self.b = 2
        self.c = self.a
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config)
        del self.b
        del self.a
# --- flat
class C(Base):
    def __init__(self, config):
        self.a = config
        # b is not needed
        self.b = 2
        self.c = self.a
        del self.b
        del self.a
# --- probe
print(vars(C(3)))
