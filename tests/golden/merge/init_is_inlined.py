"""`super().__init__(config)` becomes the parent's statements."""
# --- bases
class Base:
    def __init__(self):
        self.base = True
# --- parent
class P(Base):
    def __init__(self, config, layer_idx: int = 0):
        """Doc that is not needed any more."""
        super().__init__()
        # the size
        self.size = config
        self.idx = layer_idx
        self.names = """
    not
  indented
"""
# --- modular
class C(P):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)  # as the parent
        # the child's own
        self.extra = config + 1
# --- flat
class C(Base):
    def __init__(self, config, layer_idx):
        # as the parent
        super().__init__()
        # the size
        self.size = config
        self.idx = layer_idx
        self.names = """
    not
  indented
"""
        # the child's own
        self.extra = config + 1
# --- probe
print(vars(C(3, 4)))
