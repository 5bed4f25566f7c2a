"""The parent reads `self.size` after its assignment, directly or in a method: both assignments stay."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, config):
        self.size = config
        self.double = self.size * 2
        self.depth = 1
        self.setup()
    def setup(self):
        self.seen = self.depth
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config)
        self.size = config + 1
        self.depth = 7
# --- flat
class C(Base):
    def __init__(self, config):
        self.size = config
        self.double = self.size * 2
        self.depth = 1
        self.setup()
        self.size = config + 1
        self.depth = 7
    def setup(self):
        self.seen = self.depth
# --- probe
print(vars(C(3)))
