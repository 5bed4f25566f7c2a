"""After the parent's `__init__`, `self.x = v` replaces the parent's assignment: its value is not made at all."""
# --- bases
class Base:
    def post_init(self):
        self.done = True
def made(*what):
    return what
# --- parent
class P(Base):
    def __init__(self, config):
        super().__init__()
        self.size = config
        # the parent's way
        self.layer = made("parent", self.size)
        self.norm = made("norm", self.size)
        self.post_init()
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config)
        # the child's way
        self.layer = made("child", self.size)
        self.more = 1
# --- flat
class C(Base):
    def __init__(self, config):
        super().__init__()
        self.size = config
        # the child's way
        self.layer = made("child", self.size)
        self.norm = made("norm", self.size)
        self.post_init()
        self.more = 1
# --- probe
c = C(1)
print(c.layer, c.norm, c.more, c.done)
