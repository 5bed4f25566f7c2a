# What `super()` and the name of the parent can reach, and from what kind of member.
# The format is told in ../traps.py.

# === super of another method
# --- parent
def a(self, x):
    self.n += x
    return self.n
def b(self, x):
    return x * <1>
# --- child
def b(self, x):
    return super().a(x) + super().b(x)
def a(self, x):
    return -super().a(x)
# --- calls
obj.a(<2>)
obj.b(<2>)
obj.b(<3>)

# === super in a new method of an overridden one
# --- parent
def a(self, x):
    y = self.b(x)
    return y
def b(self, x):
    return x * <1>
# --- child
def b(self, x):
    return x * <2> + 100
def old_b(self, x):
    return super().b(x)
# --- calls
obj.a(<3>)
obj.b(<2>)
obj.old_b(<2>)

# === explicit parent
# --- parent
def <M>(self, x, y=<1>):
    z = x + y
    return z
# --- child
def <M>(self, x, z=<2>):
    return PARENT.<M>(self, x, z) * 2
# --- calls
obj.<M>(1)
obj.<M>(2, 3)

# === explicit parent of another method
# --- parent
def a(self, x):
    return x + <1>
def b(self, x):
    return x - <2>
# --- child
def a(self, x):
    return PARENT.b(self, x)
def b(self, x):
    return PARENT.a(self, x)
# --- calls
obj.a(1)
obj.b(1)

# === super in a property
# --- parent
@property
def v(self):
    return self.n * <1>
# --- child
@property
def v(self):
    return super().v + <2>
# --- calls
obj.v
obj.v + 1

# === property with setter, both overridden
# --- parent
@property
def v(self):
    return self.n
@v.setter
def v(self, value):
    self.n = value * <1>
# --- child
@property
def v(self):
    return super().v + 1
@v.setter
def v(self, value):
    self.n = value + <2>
# --- calls
obj.v
obj.v = 5
obj.v

# === super classmethod that constructs
# --- parent
@classmethod
def make(cls, x):
    return cls(x)
# --- child
@classmethod
def make(cls, x):
    made = super().make(x)
    made.extra = <1>
    return made
# --- calls
CHILD.make(1)
obj.make(3)

# === __hash__ set to None
# --- parent
def __hash__(self):
    return <1>
# --- child
__hash__ = None
# --- calls
hash(obj)
CHILD.__hash__ is None

# === asynchronous generator
# --- parent
async def g(self, k):
    for x in range(k):
        yield x * <1>
# --- child
async def g(self, k):
    yield -1
    async for x in super().g(k):
        yield x + <2>
# --- calls
run(obj.g(3))
