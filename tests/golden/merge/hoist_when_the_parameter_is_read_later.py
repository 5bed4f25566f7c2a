"""The child reads its own `config` after the call, so the parent's cannot have that name."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, config):
        self.size = config["size"]
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config["text"])
        self.scale = config["scale"]
# --- flat
class C(Base):
    def __init__(self, config):
        self._init_of_P(config["text"])
        self.scale = config["scale"]

    def _init_of_P(self, config):
        self.size = config["size"]
# --- probe
print(vars(C({"scale": 1, "text": {"size": 2}})))
