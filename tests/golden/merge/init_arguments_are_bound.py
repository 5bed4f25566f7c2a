"""Arguments under other names, defaults and keywords are bound by lines of their own."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, size, depth=2, *, scale=1.0):
        self.size, self.depth, self.scale = size, depth, scale
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config["size"], scale=config["scale"])
        self.config = config
# --- flat
class C(Base):
    def __init__(self, config):
        size = config["size"]
        scale = config["scale"]
        depth = 2
        self.size, self.depth, self.scale = size, depth, scale
        self.config = config
# note: C.__init__ does not take size, which P.__init__ takes
# note: C.__init__ does not take depth, which P.__init__ takes
# note: C.__init__ does not take scale, which P.__init__ takes
# --- probe
print(vars(C({"size": 3, "scale": 2.0})))
