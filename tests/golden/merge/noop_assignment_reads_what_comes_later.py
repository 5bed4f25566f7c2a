"""The child's value reads what the parent sets after its own assignment: both stay."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, config):
        self.a = 1
        self.b = config
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config)
        scale = 10
        self.a = self.b * scale
# --- flat
class C(Base):
    def __init__(self, config):
        self.a = 1
        self.b = config
        scale = 10
        self.a = self.b * scale
# --- probe
print(vars(C(3)))
