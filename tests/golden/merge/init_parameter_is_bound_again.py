"""`super().__init__(config.text_config)`: the name is free for the parent's code, as nothing of the child follows."""
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
        self.scale = config["scale"]
        super().__init__(config["text"])
        self.more = 1
# --- flat
class C(Base):
    def __init__(self, config):
        self.scale = config["scale"]
        config = config["text"]
        self.size = config["size"]
        self.more = 1
# --- probe
print(vars(C({"scale": 1, "text": {"size": 2}})))
