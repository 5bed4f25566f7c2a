"""`self.act = f(self.act)` needs the parent's value, so both assignments stay."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, config):
        self.act = config
        self.other = 2
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config)
        self.act = [self.act]
# --- flat
class C(Base):
    def __init__(self, config):
        self.act = config
        self.other = 2
        self.act = [self.act]
# --- probe
print(vars(C(3)))
