"""After the parent's `__init__`, `self.x = v` stands where it stands: the parent's value is made before."""
# --- bases
class Base:
    def post_init(self):
        self.done = True
class Linear(tuple):
    def __new__(cls, *what):
        return tuple.__new__(cls, what)
# --- parent
class P(Base):
    def __init__(self, config):
        super().__init__()
        self.size = config
        # the parent's way
        self.layer = Linear("parent", self.size)
        self.norm = Linear("norm", self.size)
        self.post_init()
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config)
        # the child's way
        self.layer = Linear("child", self.size)
        self.more = 1
# --- flat
class C(Base):
    def __init__(self, config):
        super().__init__()
        self.size = config
        # the parent's way
        self.layer = Linear("parent", self.size)
        self.norm = Linear("norm", self.size)
        self.post_init()
        # the child's way
        self.layer = Linear("child", self.size)
        self.more = 1
# --- probe
c = C(1)
print(c.layer, c.norm, c.more, c.done)
