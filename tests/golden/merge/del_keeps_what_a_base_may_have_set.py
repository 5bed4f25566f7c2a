"""A base outside may set the attribute too: then deleting the parent's assignment would leave the base's."""
# --- bases
class Base:
    def __init__(self):
        self.config = "base"
# --- parent
class P(Base):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.other = 1
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config)
        del self.config
# --- flat
class C(Base):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.other = 1
        del self.config
# --- probe
print(vars(C(3)))
